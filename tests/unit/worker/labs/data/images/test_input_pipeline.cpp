#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "tests/catch.h"
#include "worker/labs/data/images/input_pipeline.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"

using namespace hvdrun;

namespace {

// Images of one colour, which is their number; some may be damaged.
class NumberedSource final : public ImageSource {
 public:
  explicit NumberedSource(std::size_t size, std::set<std::size_t> damaged = {})
      : size_(size), damaged_(std::move(damaged)) {
    SplitMix random(1);
    varied_ = encode_png(synthetic_pattern(4, 30, 40, random));
  }

  std::size_t size() const override { return size_; }
  std::int64_t classes() const override { return 1000; }
  std::uint32_t checksum() const override { return 0; }
  std::optional<EncodedImage> read(std::size_t index, std::string&) const override {
    ++reads;
    // Late ones are done before early ones.
    if (index % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (damaged_.count(index) > 0)
      return EncodedImage{"\xff\xd8\xff damaged", 0, "file " + std::to_string(index)};
    if (varies) return EncodedImage{varied_, static_cast<std::int64_t>(index), "file"};
    const auto colour = static_cast<std::uint8_t>(index);
    const Image image{8, 8, std::vector<std::uint8_t>(192, colour)};
    return EncodedImage{encode_png(image), static_cast<std::int64_t>(index), "file"};
  }

  mutable std::atomic<std::size_t> reads{0};
  bool varies = false;

 private:
  std::size_t size_;
  std::set<std::size_t> damaged_;
  std::string varied_;
};

Pass pass_over(std::size_t samples, std::vector<std::size_t> batches, bool augment = false) {
  Pass pass;
  pass.samples.resize(samples);
  std::iota(pass.samples.rbegin(), pass.samples.rend(), 0U);
  pass.batch_sizes = std::move(batches);
  pass.augment = augment;
  pass.seed = 1;
  return pass;
}

PipelineOptions small(std::size_t threads) {
  PipelineOptions options;
  options.side = 4;
  options.threads = threads;
  options.scaling = {{0, 0, 0}, {1, 1, 1}};
  return options;
}

}  // namespace

TEST_CASE("batches come in the order of the pass, each image once", "[pipeline]") {
  for (const std::size_t threads : {1U, 2U, 5U}) {
    InputPipeline pipeline(std::make_shared<NumberedSource>(100), small(threads));
    for (int round = 0; round < 2; ++round) {
      pipeline.begin(pass_over(100, {7, 40, 1, 52}));
      std::vector<std::int64_t> labels;
      std::string error;
      std::size_t batches = 0;
      while (const auto batch = pipeline.next(error)) {
        REQUIRE(batch->pixels.size() == batch->labels.size() * 48);
        for (std::size_t i = 0; i < batch->labels.size(); ++i)
          CHECK(batch->pixels[i * 48] * 255 ==
                Approx(static_cast<double>(batch->labels[i])).margin(0.01));
        labels.insert(labels.end(), batch->labels.begin(), batch->labels.end());
        ++batches;
      }
      CHECK(error.empty());
      CHECK(batches == 4);
      CHECK(pipeline.times().batches == 4);
      std::vector<std::int64_t> wanted(100);
      std::iota(wanted.rbegin(), wanted.rend(), 0);
      CHECK(labels == wanted);
    }
  }
}

TEST_CASE("what happens to an image depends on seed, epoch and its number alone", "[pipeline]") {
  const auto source = std::make_shared<NumberedSource>(30);
  source->varies = true;
  const auto all = [&](std::size_t threads, std::uint64_t epoch) {
    InputPipeline pipeline(source, small(threads));
    Pass pass = pass_over(30, {10, 10, 10}, true);
    pass.epoch = epoch;
    pipeline.begin(pass);
    std::vector<float> pixels;
    std::string error;
    while (const auto batch = pipeline.next(error))
      pixels.insert(pixels.end(), batch->pixels.begin(), batch->pixels.end());
    return pixels;
  };
  const auto once = all(1, 0);
  CHECK(once == all(4, 0));
  CHECK(once != all(1, 1));
  // The same picture thirty times is thirty pictures.
  std::set<std::vector<float>> different;
  for (std::size_t i = 0; i < 30; ++i)
    different.emplace(once.begin() + static_cast<std::ptrdiff_t>(i * 48),
                      once.begin() + static_cast<std::ptrdiff_t>(i * 48 + 48));
  CHECK(different.size() == 30);
}

TEST_CASE("training images are mirrored every other time, and change their colours if so wished",
          "[pipeline]") {
  // Dark on the left; grey, so that only a change of colours can alter a level area's brightness.
  class Halves final : public ImageSource {
   public:
    std::size_t size() const override { return 200; }
    std::int64_t classes() const override { return 1; }
    std::uint32_t checksum() const override { return 0; }
    std::optional<EncodedImage> read(std::size_t, std::string&) const override {
      Image image{8, 64, std::vector<std::uint8_t>(8 * 64 * 3, 50)};
      for (std::size_t i = 0; i < image.pixels.size(); ++i)
        if (i / 3 % 64 >= 32) image.pixels[i] = 150;
      return EncodedImage{encode_png(image), 0, "file"};
    }
  };
  for (const bool changes : {false, true}) {
    PipelineOptions options = small(2);
    options.changes_colours = changes;
    InputPipeline pipeline(std::make_shared<Halves>(), options);
    Pass pass = pass_over(200, {200}, true);
    pipeline.begin(pass);
    std::string error;
    const auto batch = pipeline.next(error);
    REQUIRE(batch);
    int rising = 0;
    int falling = 0;
    int other_levels = 0;
    for (std::size_t i = 0; i < 200; ++i) {
      const float left = batch->pixels[i * 48] * 255;
      const float right = batch->pixels[i * 48 + 3] * 255;
      rising += left < right - 20 ? 1 : 0;
      falling += left > right + 20 ? 1 : 0;
      other_levels += std::min(left, right) < 49 || std::max(left, right) > 151 ? 1 : 0;
    }
    CAPTURE(changes, rising, falling);
    CHECK(rising > 40);
    CHECK(falling > 40);
    if (changes)
      CHECK(other_levels > 100);
    else
      CHECK(other_levels == 0);
  }
}

TEST_CASE("a batch's memory is used again, by nobody while it is held", "[pipeline]") {
  std::shared_ptr<CroppedImages> held;
  std::string error;
  std::vector<float> copy;
  {
    InputPipeline pipeline(std::make_shared<NumberedSource>(100), small(2));
    pipeline.begin(pass_over(100, std::vector<std::size_t>(10, 10)));
    held = pipeline.next(error);
    REQUIRE(held);
    copy = held->pixels;
    std::set<const float*> places{held->pixels.data()};
    while (const auto batch = pipeline.next(error)) {
      CHECK(batch->pixels.data() != held->pixels.data());
      places.insert(batch->pixels.data());
    }
    // Those ahead, the one that is held, the one in the loop and a spare one.
    CHECK(places.size() <= PipelineOptions{}.batches_ahead + 3);
  }
  // The pipeline has gone; the batch has not.
  CHECK(held->pixels == copy);
}

TEST_CASE("no more is read ahead than was said", "[pipeline]") {
  const auto source = std::make_shared<NumberedSource>(100);
  PipelineOptions options = small(4);
  options.batches_ahead = 2;
  InputPipeline pipeline(source, options);
  pipeline.begin(pass_over(100, std::vector<std::size_t>(10, 10)));
  std::string error;
  for (std::size_t taken = 1; taken <= 3; ++taken) {
    REQUIRE(pipeline.next(error) != nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(source->reads <= (taken + 2) * 10);
  }
}

TEST_CASE("an image that cannot be read ends the pass, and the next pass begins anew",
          "[pipeline]") {
  const auto source = std::make_shared<NumberedSource>(40, std::set<std::size_t>{13});
  InputPipeline pipeline(source, small(3));
  pipeline.begin(pass_over(40, {20, 20}));
  std::string error;
  while (pipeline.next(error)) {
  }
  CHECK_THAT(error, Catch::StartsWith("file 13: JPEG: damaged at byte "));
  Pass rest = pass_over(40, {13});
  rest.samples.resize(13);  // 39 down to 27
  pipeline.begin(rest);
  error.clear();
  REQUIRE(pipeline.next(error));
  CHECK_FALSE(pipeline.next(error));
  CHECK(error.empty());
}

// Labels of all batches, their sizes, and what was bad.
struct PassResult {
  std::vector<std::int64_t> labels;
  std::vector<std::size_t> sizes;
  std::vector<float> pixels;
  BadSamples bad;
  std::string error;
};

PassResult run_pass(const std::shared_ptr<NumberedSource>& source, std::size_t threads, Pass pass) {
  InputPipeline pipeline(source, small(threads));
  pipeline.begin(std::move(pass));
  PassResult result;
  while (const auto batch = pipeline.next(result.error)) {
    for (std::size_t i = 0; !source->varies && i < batch->labels.size(); ++i)
      CHECK(batch->pixels[i * 48] * 255 ==
            Approx(static_cast<double>(batch->labels[i])).margin(0.01));
    result.labels.insert(result.labels.end(), batch->labels.begin(), batch->labels.end());
    result.pixels.insert(result.pixels.end(), batch->pixels.begin(), batch->pixels.end());
    result.sizes.push_back(batch->labels.size());
  }
  result.bad = pipeline.bad();
  return result;
}

TEST_CASE("in the place of a bad image comes the next good one, and batches keep their size",
          "[pipeline]") {
  const auto source = std::make_shared<NumberedSource>(20, std::set<std::size_t>{0, 7, 8, 15, 16});
  Pass pass = pass_over(20, {5, 10, 5});  // 19 down to 0
  pass.on_bad = OnBadSample::replace;
  for (const std::size_t threads : {1U, 4U}) {
    const PassResult result = run_pass(source, threads, pass);
    CHECK(result.error.empty());
    CHECK(result.sizes == pass.batch_sizes);
    CHECK(result.labels == std::vector<std::int64_t>{19, 18, 17, 14, 14, 14, 13, 12, 11, 10,
                                                     9,  6,  6,  6,  5,  4,  3,  2,  1,  19});
    CHECK(result.bad.count == 5);
    REQUIRE(result.bad.first.size() == 3);
    CHECK_THAT(result.bad.first[0], Catch::StartsWith("file 16: JPEG: damaged at byte "));
    CHECK_THAT(result.bad.text(), Catch::Contains("; file 15: ") && Catch::Contains("; file 8: ") &&
                                      Catch::EndsWith("; and 2 more"));
  }
  // Its crop is that of the bad one: the same picture twice is two.
  source->varies = true;
  pass.augment = true;
  const PassResult drawn = run_pass(source, 2, pass);
  CHECK(std::equal(drawn.labels.begin() + 3, drawn.labels.begin() + 4, drawn.labels.begin() + 4));
  CHECK_FALSE(std::equal(drawn.pixels.begin() + 3 * 48, drawn.pixels.begin() + 4 * 48,
                         drawn.pixels.begin() + 4 * 48));
  CHECK(drawn.pixels == run_pass(source, 5, pass).pixels);
}

TEST_CASE("a pass without a good image says so", "[pipeline]") {
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < 300; ++i) all.insert(i);
  for (const std::size_t size : {1U, 10U, 300U}) {
    Pass pass = pass_over(size, {size});
    pass.on_bad = OnBadSample::replace;
    const PassResult result = run_pass(std::make_shared<NumberedSource>(size, all), 2, pass);
    CHECK(result.sizes.empty());
    CHECK_THAT(
        result.error,
        Catch::StartsWith("file ") &&
            Catch::EndsWith("; nor can " + std::to_string(std::min<std::size_t>(size - 1, 100)) +
                            " more of this pass be read"));
  }
}

TEST_CASE("what is left out leaves no gap, and no batch is empty", "[pipeline]") {
  const auto source =
      std::make_shared<NumberedSource>(20, std::set<std::size_t>{2, 5, 6, 7, 8, 9, 16, 19});
  Pass pass = pass_over(20, {5, 5, 5, 5});
  pass.on_bad = OnBadSample::leave_out;
  for (const std::size_t threads : {1U, 4U}) {
    const PassResult result = run_pass(source, threads, pass);
    CHECK(result.error.empty());
    CHECK(result.sizes == std::vector<std::size_t>{3, 5, 4});
    CHECK(result.labels == std::vector<std::int64_t>{18, 17, 15, 14, 13, 12, 11, 10, 4, 3, 1, 0});
    CHECK(result.bad.count == 8);
    CHECK_THAT(result.bad.text(), Catch::StartsWith("file 19: "));
  }
}

TEST_CASE("a pass may be dropped, and the pipeline with it, at any moment", "[pipeline]") {
  const auto source = std::make_shared<NumberedSource>(200);
  for (int i = 0; i < 20; ++i) {
    InputPipeline pipeline(source, small(3));
    pipeline.begin(pass_over(200, std::vector<std::size_t>(20, 10)));
    std::string error;
    if (i % 2 == 0) REQUIRE(pipeline.next(error));
    if (i % 3 == 0) continue;
    pipeline.begin(pass_over(200, std::vector<std::size_t>(4, 50)));
    const auto batch = pipeline.next(error);
    REQUIRE(batch);
    CHECK(batch->labels[0] == 199);
    CHECK(batch->labels.size() == 50);
  }
}
