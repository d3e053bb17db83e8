// The made-up sets want a net: a linear model of what they hold stays far behind what the lab
// models reach on them (tests/integration/labs/test_train*.cpp ask for more of those).
#include <cstdio>
#include <filesystem>
#include <functional>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/batches/image_batches.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/images/crop.h"
#include "worker/labs/data/images/image_source.h"
#include "worker/labs/data/synthetic/synthetic_numbers.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"
#include "worker/labs/data/synthetic/synthetic_sentences.h"
#include "worker/labs/data/text/sentences.h"

namespace hvdrun {
namespace {

constexpr std::size_t kSeen = 32;  // rows and columns of pictures

struct LinearFit {
  std::int64_t inputs = 0;
  std::int64_t classes = 10;
  int epochs = 10;
};

// Softmax regression; gives how many of the unseen it finds.
double linear_accuracy(const LinearFit& fit, const Batch& known, const Batch& unseen) {
  torch::manual_seed(1);
  constexpr std::int64_t kStep = 50;
  torch::nn::Linear linear(fit.inputs, fit.classes);
  torch::optim::SGD sgd(linear->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  const std::int64_t samples = known.labels.size(0) / kStep * kStep;
  for (int epoch = 0; epoch < fit.epochs; ++epoch) {
    for (std::int64_t begin = 0; begin < samples; begin += kStep) {
      const torch::Tensor batch = known.inputs.slice(0, begin, begin + kStep).flatten(1);
      sgd.zero_grad();
      torch::nll_loss(torch::log_softmax(linear(batch), 1),
                      known.labels.slice(0, begin, begin + kStep))
          .backward();
      sgd.step();
    }
  }
  const torch::Tensor found = linear(unseen.inputs.flatten(1)).argmax(1).eq(unseen.labels);
  return found.to(torch::kDouble).mean().item<double>();
}

// `of` decodes picture number i and says its class.
Batch small_pictures(std::size_t count,
                     const std::function<std::pair<Image, std::int64_t>(std::size_t)>& of) {
  const auto n = static_cast<std::int64_t>(count);
  Batch batch{torch::empty({n, 3 * kSeen * kSeen}), torch::empty({n}, torch::kLong)};
  CropOptions options;
  options.side = kSeen;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [image, label] = of(i);
    write_crop(image, middle_crop({image.rows, image.columns}), options,
               batch.inputs.data_ptr<float>() + i * 3 * kSeen * kSeen);
    batch.labels[static_cast<std::int64_t>(i)] = label;
  }
  return batch;
}

TEST_CASE("a linear model hardly learns the made-up house numbers", "[linear]") {
  const ImageSet numbers = synthetic_numbers(Split::train, 2000, 1);
  const Scaling scaling = scaling_of(numbers);
  const Batch known = ImageBatches(numbers, scaling).range(0, 2000);
  const Batch unseen = ImageBatches(synthetic_numbers(Split::test, 500, 1), scaling).range(0, 500);
  const double accuracy = linear_accuracy({3072}, known, unseen);
  std::printf("linear on house numbers %.1f %%\n", 100 * accuracy);
  CHECK(accuracy < 0.3);  // svhn-cnn: above 60
}

TEST_CASE("a linear model hardly learns the made-up patterns", "[linear]") {
  const auto pictures = [](std::size_t count, std::uint64_t seed) {
    return small_pictures(count, [&](std::size_t i) {
      SplitMix random(seed, i);
      const std::size_t kind = random.below(kPatterns);
      return std::pair{synthetic_pattern(kind, 120, 120, random), static_cast<std::int64_t>(kind)};
    });
  };
  const double accuracy = linear_accuracy({3 * kSeen * kSeen}, pictures(1500, 1), pictures(500, 2));
  std::printf("linear on patterns %.1f %%\n", 100 * accuracy);
  CHECK(accuracy < 0.3);  // resnet50 and alexnet-owt: above 40
}

TEST_CASE("a linear model hardly learns the made-up painters", "[linear]") {
  const test::TemporaryFolder folder;
  std::string error;
  for (const auto& [split, count] : {std::pair{Split::train, 1000}, std::pair{Split::test, 250}})
    REQUIRE(
        write_synthetic_artists(folder.path(), split, static_cast<std::size_t>(count), 1, error));
  const auto found = list_class_folders(folder.path(), error);
  REQUIRE(found);
  std::vector<ClassFolders::File> known;
  std::vector<ClassFolders::File> unseen;
  for (const ClassFolders::File& file : found->files)
    (std::filesystem::path(file.path).filename().string()[0] == 'a' ? known : unseen)
        .push_back(file);
  REQUIRE(unseen.size() == 250);
  // The files are in the order of their classes; the regression wants them mixed.
  SplitMix random(1);
  for (std::size_t i = known.size(); i > 1; --i) std::swap(known[i - 1], known[random.below(i)]);
  const auto pictures = [&](const std::vector<ClassFolders::File>& files) {
    const auto source = folder_source(files, 5);
    return small_pictures(files.size(), [&](std::size_t i) {
      const auto encoded = source->read(i, error);
      return std::pair{decode_image(encoded.value().bytes, {}, error).value(), encoded->label};
    });
  };
  const double accuracy =
      linear_accuracy({3 * kSeen * kSeen, 5}, pictures(known), pictures(unseen));
  std::printf("linear on painters %.1f %%\n", 100 * accuracy);
  CHECK(accuracy < 0.42);  // artists-resnet: above 60
}

TEST_CASE("a sum over words does not understand the made-up reviews", "[linear]") {
  std::string error;
  const auto sentences = parse_sentences("f", synthetic_sentences(4000, 1), {}, error);
  REQUIRE(sentences);
  const SentenceSplit split = split_sentences(sentences->labels, 1);
  torch::manual_seed(1);
  torch::nn::EmbeddingBag bag(torch::nn::EmbeddingBagOptions(kWordNumbers, 1).mode(torch::kSum));
  torch::nn::init::zeros_(bag->weight);
  torch::optim::Adam adam(bag->parameters(), 0.05);
  const auto logits = [&](const std::vector<std::uint32_t>& members, std::size_t begin,
                          std::size_t end, torch::Tensor& labels) {
    std::vector<std::int64_t> words;
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> truth;
    for (std::size_t i = begin; i < end; ++i) {
      offsets.push_back(static_cast<std::int64_t>(words.size()));
      const auto& of = sentences->words[members[i]];
      words.insert(words.end(), of.begin(), of.end());
      truth.push_back(sentences->labels[members[i]]);
    }
    labels = torch::tensor(truth, torch::kLong);
    return bag->forward(torch::tensor(words, torch::kLong), torch::tensor(offsets, torch::kLong))
        .squeeze(1);
  };
  torch::Tensor labels;
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (std::size_t begin = 0; begin + 64 <= split.train.size(); begin += 64) {
      adam.zero_grad();
      const torch::Tensor output = logits(split.train, begin, begin + 64, labels);
      torch::binary_cross_entropy_with_logits(output, labels.to(torch::kFloat)).backward();
      adam.step();
    }
  }
  const torch::Tensor output = logits(split.test, 0, split.test.size(), labels);
  const double accuracy =
      output.gt(0).to(torch::kLong).eq(labels).to(torch::kDouble).mean().item<double>();
  std::printf("linear on reviews %.1f %%\n", 100 * accuracy);
  CHECK(accuracy > 0.6);
  CHECK(accuracy < 0.75);  // text-nnlm: above 80
}

}  // namespace
}  // namespace hvdrun
