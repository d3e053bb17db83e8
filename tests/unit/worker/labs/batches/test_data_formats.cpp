// The data of each lab model as they come to the model: centred and scaled as its source has it,
// and augmented only where it is trained on.
#include <cmath>
#include <filesystem>
#include <set>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/batches/data_format.h"
#include "worker/labs/batches/dataset.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/data/images/image.h"
#include "worker/labs/data/images/mnist_files.h"
#include "worker/labs/data/images/svhn_files.h"
#include "worker/labs/data/synthetic/synthetic_numbers.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"

namespace hvdrun {
namespace {

DataSets open_format(const DataFormat& format, const test::TemporaryFolder& folder,
                     std::int64_t side = 32) {
  DataRequest request;
  request.directory = folder.path();
  request.image_size = side;
  request.data_threads = 1;
  std::string error;
  auto sets = format.open(request, error);
  INFO(error);
  REQUIRE(sets);
  return std::move(*sets);
}

// All samples of a set in their order, as one batch.
torch::Tensor all_inputs(Dataset& data, bool augment, std::uint64_t epoch = 0) {
  Pass pass = shard_pass(data.size(), data.size(), 0, 1);
  pass.augment = augment;
  pass.seed = 1;
  pass.epoch = epoch;
  data.begin(std::move(pass));
  return data.next().value().inputs.clone();
}

LabelledImages grey_images(std::size_t count, std::vector<std::uint8_t> pixels) {
  LabelledImages data;
  data.images.count = count;
  data.images.rows = data.images.columns = kMnistSide;
  data.images.pixels = std::move(pixels);
  data.labels.assign(count, 3);
  return data;
}

void write_clothes(const test::TemporaryFolder& folder) {
  std::string error;
  for (const Split split : {Split::train, Split::test})
    REQUIRE(write_mnist(folder.path(), split,
                        synthetic_clothes(split, split == Split::train ? 200 : 50, 1), false,
                        error));
}

// A tensor of the pixels themselves, 0 to 1.
torch::Tensor pixels_of(const std::vector<std::uint8_t>& pixels, torch::IntArrayRef shape) {
  return torch::tensor(std::vector<std::int64_t>(pixels.begin(), pixels.end())).view(shape) / 255.0;
}

TEST_CASE("digits are centred by 0.1307, divided by 0.3081 and never changed", "[formats]") {
  const test::TemporaryFolder folder;
  write_clothes(folder);
  const DataSets sets = open_format(mnist_files(), folder);
  CHECK(sets.validation == nullptr);
  const auto check = [](Dataset& data, Split split, std::int64_t count) {
    const torch::Tensor pixels =
        pixels_of(synthetic_clothes(split, static_cast<std::size_t>(count), 1).images.pixels,
                  {count, 1, 28, 28});
    const torch::Tensor inputs = all_inputs(data, false);
    CHECK(inputs.allclose(((pixels - 0.1307) / 0.3081).to(torch::kFloat), 1e-5, 1e-5));
    CHECK(all_inputs(data, true, 1).equal(inputs));
  };
  check(*sets.train, Split::train, 200);
  check(*sets.test, Split::test, 50);
}

TEST_CASE("clothes are centred and scaled by the training images' own numbers", "[formats]") {
  const test::TemporaryFolder folder;
  write_clothes(folder);
  const DataSets sets = open_format(fashion_mnist_files(), folder);
  const torch::Tensor train = all_inputs(*sets.train, false).to(torch::kDouble);
  CHECK(std::abs(train.mean().item<double>()) < 1e-5);
  CHECK(train.std(false).item<double>() == Approx(1).epsilon(1e-5));
  // The test's images too: by those of training, not their own.
  const torch::Tensor known =
      pixels_of(synthetic_clothes(Split::train, 200, 1).images.pixels, {200, 1, 28, 28});
  const torch::Tensor unseen =
      pixels_of(synthetic_clothes(Split::test, 50, 1).images.pixels, {50, 1, 28, 28});
  const torch::Tensor inputs = all_inputs(*sets.test, false);
  CHECK(
      inputs.allclose(((unseen - known.mean()) / known.std(false)).to(torch::kFloat), 1e-4, 1e-4));
  CHECK(std::abs(inputs.mean().item<double>()) > 1e-4);
}

TEST_CASE("clothes are shifted by up to a fifth and mirrored, those of the test never",
          "[formats]") {
  const test::TemporaryFolder folder;
  std::string error;
  // A bright point in the middle, and a darker one two columns to its right.
  std::vector<std::uint8_t> pixels(kMnistSide * kMnistSide);
  pixels[14 * kMnistSide + 14] = 255;
  pixels[14 * kMnistSide + 16] = 100;
  for (const Split split : {Split::train, Split::test})
    REQUIRE(write_mnist(folder.path(), split, grey_images(1, pixels), false, error));
  const DataSets sets = open_format(fashion_mnist_files(), folder);
  std::set<std::int64_t> down;
  std::set<std::int64_t> right;
  int mirrored = 0;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    const torch::Tensor image = all_inputs(*sets.train, true, epoch)[0][0];
    const auto brightest = image.argmax().item<std::int64_t>();
    const std::int64_t row = brightest / 28;
    const std::int64_t column = brightest % 28;
    const bool is_mirrored =
        image[row][column - 2].item<float>() > image[row][column + 2].item<float>();
    mirrored += is_mirrored ? 1 : 0;
    down.insert(row - 14);
    right.insert(column - (is_mirrored ? 13 : 14));
  }
  const std::set<std::int64_t> fifth = {-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5};
  CHECK(down == fifth);
  CHECK(right == fifth);
  CHECK(mirrored > 150);
  CHECK(mirrored < 250);
  const torch::Tensor test = all_inputs(*sets.test, false);
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch)
    CHECK(all_inputs(*sets.test, true, epoch).equal(test));
}

TEST_CASE("house numbers are scaled channel by channel by the training images, and stay",
          "[formats]") {
  const test::TemporaryFolder folder;
  std::string error;
  for (const Split split : {Split::train, Split::test})
    REQUIRE(write_svhn(folder.path(), split, synthetic_numbers(split, 60, 1), error));
  const DataSets sets = open_format(svhn_files(), folder);
  const torch::Tensor train = all_inputs(*sets.train, false).to(torch::kDouble);
  CHECK(train.mean({0, 2, 3}).abs().max().item<double>() < 1e-5);
  CHECK(train.std({0, 2, 3}, false).allclose(torch::ones({3}, torch::kDouble), 1e-5));
  const torch::Tensor known =
      pixels_of(synthetic_numbers(Split::train, 60, 1).pixels, {60, 3, 32, 32});
  const torch::Tensor unseen =
      pixels_of(synthetic_numbers(Split::test, 60, 1).pixels, {60, 3, 32, 32});
  const auto of_channel = [](const torch::Tensor& numbers) { return numbers.view({1, 3, 1, 1}); };
  const torch::Tensor expected =
      (unseen - of_channel(known.mean({0, 2, 3}))) / of_channel(known.std({0, 2, 3}, false));
  const torch::Tensor test = all_inputs(*sets.test, false);
  CHECK(test.allclose(expected.to(torch::kFloat), 1e-4, 1e-4));
  CHECK(all_inputs(*sets.train, true, 1).equal(all_inputs(*sets.train, false)));
  CHECK(all_inputs(*sets.test, true, 1).equal(test));
}

TEST_CASE("photographs are scaled by ImageNet's numbers, and cropped only to train", "[formats]") {
  const test::TemporaryFolder folder;
  const Image image{40, 40, [] {
                      std::vector<std::uint8_t> pixels;
                      for (int i = 0; i < 1600; ++i) pixels.insert(pixels.end(), {200, 100, 30});
                      return pixels;
                    }()};
  for (const char* split : {"train", "val"}) {
    std::filesystem::create_directories(folder / split + "/one");
    folder.write(std::string(split) + "/one/a.png", encode_png(image));
  }
  const DataSets sets = open_format(imagenet_records(), folder);
  const auto channels = [](double red, double green, double blue) {
    return torch::tensor({red, green, blue}).to(torch::kFloat).view({1, 3, 1, 1});
  };
  const torch::Tensor expected = (channels(200, 100, 30) / 255 - channels(0.485, 0.456, 0.406)) /
                                 channels(0.229, 0.224, 0.225);
  for (Dataset* data : {sets.train.get(), sets.test.get()}) {
    const torch::Tensor inputs = all_inputs(*data, false);
    CHECK(inputs.sizes() == torch::IntArrayRef({1, 3, 32, 32}));
    CHECK(inputs.allclose(expected.expand({1, 3, 32, 32}), 1e-4, 1e-4));
  }
  // Other colours are a part of it.
  CHECK_FALSE(all_inputs(*sets.train, true).allclose(expected.expand({1, 3, 32, 32}), 1e-2, 1e-2));
}

}  // namespace
}  // namespace hvdrun
