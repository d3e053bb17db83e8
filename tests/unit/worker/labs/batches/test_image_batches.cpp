#include <set>
#include <utility>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/batches/image_batches.h"
#include "worker/labs/data/synthetic/synthetic_numbers.h"

namespace hvdrun {
namespace {

Scaling one_scaling(double mean, double deviation) { return {{mean}, {deviation}}; }

// Pixels 0, 1, 2, ... row by row.
ImageSet counting_image(std::size_t side) {
  ImageSet set{1, side, side, {}, {5}};
  for (std::size_t i = 0; i < side * side; ++i) set.pixels.push_back(static_cast<std::uint8_t>(i));
  return set;
}

// The first batch of a pass over `samples`, augmented.
Batch first_batch(ImageBatches& batches, std::vector<std::uint32_t> samples, std::uint64_t seed,
                  std::uint64_t epoch) {
  const std::size_t count = samples.size();
  batches.begin({std::move(samples), {count}, true, seed, epoch});
  return batches.next().value();
}

TEST_CASE("batches are scaled images with their labels", "[batches]") {
  ImageSet data{1, 1, 2, {0, 255, 128, 0}, {7, 3}};
  ImageBatches batches(data, one_scaling(0.5, 0.25));
  CHECK(batches.classes() == 8);
  const Batch batch = first_batch(batches, {1, 0}, 1, 0);
  CHECK_FALSE(batches.next());
  CHECK(batch.inputs.sizes() == torch::IntArrayRef({2, 1, 1, 2}));
  CHECK(batch.inputs.flatten().allclose(
      torch::tensor({(128.0F / 255 - 0.5F) / 0.25F, -2.0F, -2.0F, 2.0F}), 1e-5, 1e-5));
  CHECK(batch.labels.equal(torch::tensor({3, 7}, torch::kLong)));
  CHECK(batches.range(1, 2).labels.equal(torch::tensor({3}, torch::kLong)));
  data.labels[0] = 6;
  CHECK(ImageBatches(data, {}).checksum() != batches.checksum());
}

TEST_CASE("every channel has a scaling of its own", "[batches]") {
  const ImageSet images = synthetic_numbers(Split::train, 60, 3);
  const ImageBatches batches(images, scaling_of(images));
  const torch::Tensor all = batches.range(0, 60).inputs;
  CHECK(all.sizes() == torch::IntArrayRef({60, 3, 32, 32}));
  CHECK(all.mean({0, 2, 3}).allclose(torch::zeros({3}), 0, 1e-5));
  CHECK(all.std({0, 2, 3}, false).allclose(torch::ones({3}), 1e-4));
  // Channel by channel and row by row, as the set has them.
  const Scaling scaling = scaling_of(images);
  const double pixel = images.pixels[(7 * 3 + 2) * 1024 + 5 * 32 + 9] / 255.0;
  CHECK(all[7][2][5][9].item<float>() ==
        Approx((pixel - scaling.mean[2]) / scaling.deviation[2]).margin(1e-5));
  // Images of one colour are centred only, and no images are no trouble.
  const Scaling flat = scaling_of({1, 1, 2, {51, 51}, {0}});
  CHECK(flat.mean[0] == Approx(0.2));
  CHECK(flat.deviation[0] == 1);
  CHECK(scaling_of({3, 32, 32, {}, {}}).deviation[0] == 1);
}

TEST_CASE("a shift moves an image by whole pixels and repeats its edge", "[batches]") {
  constexpr std::int64_t kSide = 10;
  ImageBatches batches(counting_image(kSide), one_scaling(0, 1.0 / 255), {0.2, false});
  const torch::Tensor original = batches.range(0, 1).inputs[0][0];
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::uint64_t epoch = 0; epoch < 300; ++epoch) {
    const torch::Tensor image = first_batch(batches, {0}, 1, epoch).inputs[0][0];
    std::int64_t down = 9;
    std::int64_t right = 9;
    for (std::int64_t y = -2; y <= 2; ++y) {
      for (std::int64_t x = -2; x <= 2; ++x) {
        const auto from = [](std::int64_t by) {
          return (torch::arange(kSide) - by).clamp(0, kSide - 1);
        };
        if (!original.index_select(0, from(y)).index_select(1, from(x)).equal(image)) continue;
        down = y;
        right = x;
      }
    }
    CHECK(down != 9);
    seen.emplace(down, right);
  }
  CHECK(seen.size() == 25);  // all there are
}

TEST_CASE("a pass gives its batches in order, and a test's images as they are", "[batches]") {
  ImageBatches batches(counting_image(4), one_scaling(0, 1.0 / 255), {0.5, true});
  batches.begin({{0, 0, 0}, {2, 1}, true, 1, 0});
  CHECK(batches.next()->labels.size(0) == 2);
  batches.begin({{0, 0, 0}, {1, 2}, false, 1, 0});
  for (const std::int64_t count : {1, 2}) {
    const std::optional<Batch> batch = batches.next();
    REQUIRE(batch);
    CHECK(batch->inputs.size(0) == count);
    CHECK(batch->inputs[0].equal(batches.range(0, 1).inputs[0]));
  }
  CHECK_FALSE(batches.next());
}

TEST_CASE("half of the images are mirrored", "[batches]") {
  ImageBatches batches(counting_image(8), one_scaling(0, 1.0 / 255), {0, true});
  const torch::Tensor original = batches.range(0, 1).inputs[0][0];
  int mirrored = 0;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    const torch::Tensor image = first_batch(batches, {0}, 1, epoch).inputs[0][0];
    const bool as_it_is = image.equal(original);
    CHECK((as_it_is || image.equal(original.flip(1))));
    mirrored += as_it_is ? 0 : 1;
  }
  CHECK(mirrored > 150);
  CHECK(mirrored < 250);
}

TEST_CASE("what becomes of an image depends on seed, epoch and image alone", "[batches]") {
  const ImageSet images = synthetic_numbers(Split::train, 40, 3);
  const Augmentation augmentation{0.2, true};
  const auto image_of = [&](std::uint64_t seed, std::uint64_t epoch,
                            std::vector<std::uint32_t> order, std::int64_t place) {
    ImageBatches batches(images, scaling_of(images), augmentation);
    return first_batch(batches, std::move(order), seed, epoch).inputs[place];
  };
  const torch::Tensor image = image_of(1, 2, {9}, 0);
  CHECK(image.equal(image_of(1, 2, {4, 30, 9, 1}, 2)));
  int other = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    other += image.equal(image_of(1, 3 + i, {9}, 0)) ? 0 : 1;
    other += image.equal(image_of(2 + i, 2, {9}, 0)) ? 0 : 1;
  }
  CHECK(other > 30);
}

}  // namespace
}  // namespace hvdrun
