// A folder for each class: what of it is trained on, what is held back, and how much each class
// counts.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/batches/data_format.h"
#include "worker/labs/batches/dataset.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/data/images/crop.h"
#include "worker/labs/data/images/image.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;

// Pictures of one colour each, by which they are known again: red the class, green the number.
void write_coloured(const test::TemporaryFolder& folder, const std::vector<std::size_t>& counts) {
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const std::string name = "class" + std::to_string(label);
    std::filesystem::create_directory(folder / name);
    for (std::size_t i = 0; i < counts[label]; ++i) {
      Image image{16, 16, {}};
      for (std::size_t p = 0; p < 256; ++p)
        for (const std::size_t value : {10 * label, i, std::size_t{0}})
          image.pixels.push_back(static_cast<std::uint8_t>(value));
      folder.write(name + "/" + std::to_string(i) + ".png", encode_png(image));
    }
  }
}

std::optional<DataSets> open_coloured(const test::TemporaryFolder& folder, std::uint64_t seed,
                                      std::string& error) {
  DataRequest request;
  request.directory = folder.path();
  request.seed = seed;
  request.image_size = 8;
  request.data_threads = 1;
  return labelled_folders().open(request, error);
}

using Picture = std::pair<std::int64_t, std::int64_t>;  // class and number

// Those of a set, as its batches have them.
std::set<Picture> pictures_of(Dataset& data) {
  const PixelScaling scaling;
  data.begin(shard_pass(data.size(), 7, 0, 1));
  std::set<Picture> found;
  std::size_t count = 0;
  while (const std::optional<Batch> batch = data.next()) {
    for (std::int64_t i = 0; i < batch->labels.size(0); ++i, ++count) {
      const auto value = [&](std::int64_t channel) {
        const auto at = static_cast<std::size_t>(channel);
        const auto scaled = batch->inputs[i][channel][4][4].item<float>();
        return std::lround((scaled * scaling.deviation[at] + scaling.mean[at]) * 255);
      };
      CHECK(value(0) == 10 * batch->labels[i].item<std::int64_t>());
      found.emplace(batch->labels[i].item<std::int64_t>(), value(1));
    }
  }
  CHECK(found.size() == count);  // none of them twice
  return found;
}

std::int64_t of_class(const std::set<Picture>& pictures, std::int64_t label) {
  return std::count_if(pictures.begin(), pictures.end(),
                       [&](const Picture& picture) { return picture.first == label; });
}

TEST_CASE("a fifth of each class is held back, at least one, and nothing is lost", "[folders]") {
  const test::TemporaryFolder folder;
  const std::vector<std::size_t> counts = {40, 14, 4, 2};
  write_coloured(folder, counts);
  std::string error;
  const auto sets = open_coloured(folder, 1, error);
  INFO(error);
  REQUIRE(sets);
  CHECK(sets->validation == nullptr);
  CHECK(sets->train->class_names() ==
        std::vector<std::string>{"class0", "class1", "class2", "class3"});
  CHECK(sets->test->class_names() == sets->train->class_names());
  CHECK(sets->train->classes() == 4);
  const std::set<Picture> known = pictures_of(*sets->train);
  const std::set<Picture> held_back = pictures_of(*sets->test);
  CHECK(known.size() == sets->train->size());
  CHECK(held_back.size() == sets->test->size());
  std::set<Picture> all = known;
  all.insert(held_back.begin(), held_back.end());
  CHECK(all.size() == known.size() + held_back.size());  // no picture is in both
  CHECK(all.size() == 60);
  const std::vector<std::int64_t> held = {8, 2, 1, 1};
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const auto of = static_cast<std::int64_t>(label);
    CHECK(of_class(held_back, of) == held[label]);
    CHECK(of_class(all, of) == static_cast<std::int64_t>(counts[label]));
  }
}

TEST_CASE("what is held back follows from the seed", "[folders]") {
  const test::TemporaryFolder folder;
  write_coloured(folder, {30, 30});
  std::string error;
  const auto held_back = [&](std::uint64_t seed) {
    return pictures_of(*open_coloured(folder, seed, error).value().test);
  };
  const std::set<Picture> first = held_back(1);
  CHECK(first == held_back(1));
  CHECK(first != held_back(2));
  // Each class has a draw of its own, and it is one: not the first files of all.
  std::set<std::int64_t> of_zero;
  std::set<std::int64_t> of_one;
  for (const auto& [label, number] : first) (label == 0 ? of_zero : of_one).insert(number);
  CHECK(of_zero != of_one);
  CHECK(of_zero != std::set<std::int64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("classes count by how few they are, and all together alike", "[folders]") {
  const test::TemporaryFolder folder;
  write_coloured(folder, {40, 14, 4, 2});
  std::string error;
  const auto sets = open_coloured(folder, 1, error);
  REQUIRE(sets);
  const std::vector<double> weights = sets->train->class_weights();
  const std::vector<double> trained = {32, 12, 3, 1};
  REQUIRE(weights.size() == trained.size());
  // n / (k n_c): the weights of all training samples add up to their number, a k-th of it by each.
  for (std::size_t label = 0; label < weights.size(); ++label) {
    CHECK(weights[label] == Approx(48 / (4 * trained[label])).epsilon(1e-12));
    CHECK(weights[label] * trained[label] == Approx(12).epsilon(1e-12));
  }
  CHECK(sets->test->class_weights() == weights);
}

TEST_CASE("a class of one image is refused in one line that names it", "[folders]") {
  const test::TemporaryFolder folder;
  write_coloured(folder, {5, 1, 3});
  std::string error;
  CHECK_FALSE(open_coloured(folder, 1, error));
  CHECK(error == folder.path() + "/class1: one image; a class needs two, one of them for the test");
}

TEST_CASE("a test with other classes than the training says which, and where", "[folders]") {
  const test::TemporaryFolder folder;
  const std::string png = encode_png(Image{8, 8, std::vector<std::uint8_t>(192, 7)});
  const auto put = [&](const std::string& part, const std::vector<std::string>& classes) {
    for (const std::string& name : classes) {
      std::filesystem::create_directories(folder / (part + "/" + name));
      folder.write(part + "/" + name + "/1.png", png);
    }
  };
  DataRequest request;
  request.directory = folder.path();
  request.image_size = 32;
  request.data_threads = 1;
  std::string error;
  put("train", {"a", "b", "c", "d", "e"});
  put("val", {"a", "x"});
  CHECK_FALSE(imagenet_records().open(request, error));
  CHECK(error == folder / "val" + ": its classes are not those of " + folder / "train" +
                     "; no images of 'b', 'c', 'd' and 1 more; only there: 'x'");
  put("train", {"x"});
  put("val", {"b", "c", "d"});
  std::filesystem::create_directory(folder / "val/e");
  folder.write("val/e/1.webp", png);
  CHECK_FALSE(imagenet_records().open(request, error));
  CHECK_THAT(error, Contains("train; no images of 'e'") && !Contains("only there"));
  put("val", {"e"});
  const auto sets = imagenet_records().open(request, error);
  INFO(error);
  REQUIRE(sets);
  CHECK(sets->notes == std::vector<std::string>{"passed over in " + folder / "val" + ": 1 .webp"});
}

TEST_CASE("a test goes on without an image that cannot be read, training does not", "[folders]") {
  const test::TemporaryFolder folder;
  write_coloured(folder, {40, 14, 4, 2});
  std::string error;
  const auto sets = open_coloured(folder, 1, error);
  REQUIRE(sets);
  for (int i = 0; i < 14; ++i) folder.write("class1/" + std::to_string(i) + ".png", "no picture");
  const auto look_over = [](const Dataset& data) {
    return data.look_over(0, 1, std::chrono::steady_clock::now() + std::chrono::minutes(1)).count;
  };
  CHECK(look_over(*sets->test) == 2);
  CHECK(look_over(*sets->train) == 12);
  Pass pass = shard_pass(sets->test->size(), 7, 0, 1);
  pass.on_bad = OnBadSample::leave_out;
  sets->test->begin(pass);
  std::int64_t left = 0;
  while (const std::optional<Batch> batch = sets->test->next()) left += batch->labels.size(0);
  CHECK(left == 10);
  CHECK(sets->test->bad().count == 2);
  sets->train->begin(shard_pass(sets->train->size(), 100, 0, 1));
  try {
    sets->train->next();
    FAIL("an image that cannot be read is one");
  } catch (const DataError& trouble) {
    CHECK_THAT(trouble.what(), Contains("class1/") && Contains("--bad-data skip"));
  }
}

}  // namespace
}  // namespace hvdrun
