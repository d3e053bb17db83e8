// Dropout that follows the samples.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/models/model.h"
#include "worker/labs/models/sample_dropout.h"

namespace hvdrun {
namespace {

using What = SampleDropoutImpl::What;

// Whatever a test draws by, the others do not.
struct ByGenerator {
  ~ByGenerator() { draw_dropout_by_sample({}, at::kCPU); }
};

std::vector<std::uint64_t> numbers(std::size_t count, std::uint64_t seed = 1) {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back((seed << 40) + i * i * 12345);
  return all;
}

std::vector<std::uint64_t> part(const std::vector<std::uint64_t>& all, std::size_t begin,
                                std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST_CASE_METHOD(ByGenerator, "a sample loses the same in every batch", "[dropout]") {
  const double p = GENERATE(0.01, 0.3, 0.5);
  SampleDropout first(p);
  SampleDropout second(p, What::channels);
  const auto forward = [&](const torch::Tensor& x) { return second(first(x)); };
  const torch::Tensor images = torch::rand({12, 6, 5, 5}) + 1;
  const auto samples = numbers(12);
  draw_dropout_by_sample(samples, at::kCPU);
  const torch::Tensor whole = forward(images);
  for (const auto& [begin, end] : {std::pair(0, 4), std::pair(4, 5), std::pair(5, 12)}) {
    draw_dropout_by_sample(
        part(samples, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)), at::kCPU);
    CHECK(torch::equal(forward(images.slice(0, begin, end)), whole.slice(0, begin, end)));
  }
}

TEST_CASE_METHOD(ByGenerator, "so many places are dropped, and the rest makes up for it",
                 "[dropout]") {
  const double p = GENERATE(0.01, 0.3, 0.5, 0.9);
  CAPTURE(p);
  SampleDropout drop(p);
  const auto samples = numbers(64, static_cast<std::uint64_t>(p * 1000));
  draw_dropout_by_sample(samples, at::kCPU);
  const torch::Tensor out = drop(torch::ones({64, 4096}));
  const torch::Tensor kept = out.ne(0).to(at::kDouble);
  // Five deviations, of all and of the worst sample.
  CHECK(std::abs(kept.mean().item<double>() - (1 - p)) < 5 * std::sqrt(p * (1 - p) / 64 / 4096));
  CHECK((kept.mean(1) - (1 - p)).abs().max().item<double>() < 5 * std::sqrt(p * (1 - p) / 4096));
  CHECK(out.max().item<double>() == Approx(1 / (1 - p)));
  // Neighbours know nothing of each other, in a sample or between samples.
  const torch::Tensor off = kept - kept.mean();
  const double variance = off.square().mean().item<double>();
  const auto correlation = [&](const torch::Tensor& a, const torch::Tensor& b) {
    return std::abs((a * b).mean().item<double>()) / variance;
  };
  CHECK(correlation(off.slice(1, 1), off.slice(1, 0, -1)) < 0.011);
  CHECK(correlation(off.slice(0, 1), off.slice(0, 0, -1)) < 0.011);
}

TEST_CASE_METHOD(ByGenerator, "samples, steps and layers lose different places", "[dropout]") {
  SampleDropout drop(0.5);
  const torch::Tensor ones = torch::ones({2, 256});
  draw_dropout_by_sample({1, 2}, at::kCPU);
  const torch::Tensor first = drop(ones);
  const torch::Tensor next = drop(ones);
  CHECK_FALSE(torch::equal(first, next));
  CHECK_FALSE(torch::equal(first[0], first[1]));
  draw_dropout_by_sample({3, 2}, at::kCPU);
  const torch::Tensor other = drop(ones);
  CHECK_FALSE(torch::equal(first[0], other[0]));
  CHECK(torch::equal(first[1], other[1]));
}

TEST_CASE_METHOD(ByGenerator, "channels go as a whole", "[dropout]") {
  SampleDropout drop(0.5, What::channels);
  draw_dropout_by_sample(numbers(8), at::kCPU);
  const torch::Tensor out = drop(torch::ones({8, 32, 7, 7})).flatten(2);
  CHECK(torch::equal(std::get<0>(out.max(2)), std::get<0>(out.min(2))));
  const double kept = out.ne(0).to(at::kDouble).mean().item<double>();
  CHECK((kept > 0.3 && kept < 0.7));
}

TEST_CASE_METHOD(ByGenerator, "nothing is dropped in a test, and all with 1", "[dropout]") {
  SampleDropout drop(0.5);
  SampleDropout all(1);
  const torch::Tensor ones = torch::ones({4, 16});
  draw_dropout_by_sample(numbers(4), at::kCPU);
  CHECK(all(ones).sum().item<double>() == 0);
  drop->eval();
  CHECK(torch::equal(drop(ones), ones));
  drop->train();
  CHECK_THROWS_AS(drop(torch::ones({5, 16})), c10::Error);
}

TEST_CASE("without samples the generator draws, as for LibTorch's layers", "[dropout]") {
  const torch::Tensor images = torch::ones({4, 8, 3, 3});
  SampleDropout elements(0.5);
  SampleDropout channels(0.5, What::channels);
  torch::nn::Dropout torch_elements(0.5);
  torch::nn::Dropout2d torch_channels(0.5);
  torch::manual_seed(7);
  const torch::Tensor ours = channels(elements(images));
  torch::manual_seed(7);
  CHECK(torch::equal(torch_channels(torch_elements(images)), ours));
}

TEST_CASE_METHOD(ByGenerator, "what a model drops follows its samples, not the batches",
                 "[dropout]") {
  torch::manual_seed(3);
  const std::string name = GENERATE("mnist-cnn", "svhn-cnn");
  const auto model = make_model(name);
  model->to(at::kDouble);
  // Normalisation is of a batch.
  if (name == "svhn-cnn")
    for (const auto& module : model->modules())
      if (module->as<BatchNorm2d>() != nullptr) module->eval();
  const torch::Tensor images = torch::rand_like(model->example(9), at::kDouble);
  const EpochSampler order(18, 5, 2);
  const auto outputs = [&](int size) {
    std::vector<torch::Tensor> parts;
    std::int64_t begin = 0;
    for (int rank = 0; rank < size; ++rank) {
      const auto samples = order.draws(1, 9, rank, size);
      const auto end = begin + static_cast<std::int64_t>(samples.size());
      draw_dropout_by_sample(samples, at::kCPU);
      parts.push_back(model->forward(images.slice(0, begin, end)));
      begin = end;
    }
    return torch::cat(parts);
  };
  const torch::Tensor one = outputs(1);
  for (const int size : {2, 3, 9}) CHECK(torch::allclose(outputs(size), one, 1e-9, 1e-12));
}

}  // namespace
}  // namespace hvdrun
