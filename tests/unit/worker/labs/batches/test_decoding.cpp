// The command line's words on decoding photographs, where it is done.
#include <algorithm>
#include <filesystem>

#include "common/host/usable_cores.h"
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/base/thread_plan.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/data/images/crop.h"
#include "worker/labs/data/images/image_source.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"
#include "worker/labs/train/run_data.h"

namespace hvdrun {
namespace {

TrainOptions decoding_options(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"train", "--batch-size", "2"});
  return parse_train_options(static_cast<int>(arguments.size()), arguments.data()).options.value();
}

DataSets open_photographs(const TrainOptions& options) {
  return open_run_data(options, *find_model(options.model), at::kCPU, 2, 1);
}

torch::Tensor first_inputs(Dataset& data, std::size_t count) {
  data.begin(shard_pass(count, count, 0, 1));
  return data.next().value().inputs.clone();
}

// The middle of the first images of a source, decoded so.
torch::Tensor decoded(const ImageSource& source, std::size_t count, DctMethod dct,
                      std::size_t side) {
  const auto pixels = static_cast<std::int64_t>(side);
  torch::Tensor images = torch::empty({static_cast<std::int64_t>(count), 3, pixels, pixels});
  CropOptions options;
  options.side = side;
  for (std::size_t i = 0; i < count; ++i) {
    std::string error;
    const Image image =
        decode_image(source.read(i, error).value().bytes, {dct, 0, 0, {}}, error).value();
    write_crop(image, middle_crop({image.rows, image.columns}), options,
               images.data_ptr<float>() + i * 3 * side * side);
  }
  return images;
}

TEST_CASE("photographs are decoded by the method of --dct-method", "[decoding]") {
  hvd::init();
  const test::TemporaryFolder folder;
  std::string error;
  for (const Split split : {Split::train, Split::test})
    REQUIRE(write_synthetic_imagenet(folder.path(), split, 4, 1, error));
  const auto source = shard_source(folder.path(), "train", 10, error);
  REQUIRE(source);
  // So large that no JPEG is reduced while it is decoded.
  constexpr std::size_t kLarge = 160;
  const torch::Tensor accurate = decoded(*source, 4, DctMethod::accurate, kLarge);
  const torch::Tensor fast = decoded(*source, 4, DctMethod::fast, kLarge);
  CHECK_FALSE(fast.equal(accurate));
  const auto inputs = [&](std::vector<const char*> more) {
    more.insert(more.end(), {"--model", "resnet50", "--data-dir", folder.path().c_str(),
                             "--image-size", "160", "--classes", "10"});
    return first_inputs(*open_photographs(decoding_options(more)).train, 4);
  };
  CHECK(inputs({"--dct-method", "fast"}).equal(fast));
  CHECK(inputs({"--dct-method", "accurate"}).equal(accurate));
  CHECK(inputs({}).equal(accurate));
  hvd::shutdown();
}

TEST_CASE("as many threads decode as --data-threads says", "[decoding]") {
  hvd::init();
  const test::TemporaryFolder folder;
  std::string error;
  REQUIRE(write_synthetic_artists(folder.path(), Split::train, 80, 1, error));
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto started = [&](const char* count) {
    const auto before = threads();
    const DataSets sets = open_photographs(
        decoding_options({"--model", "artists-resnet", "--data-dir", folder.path().c_str(),
                          "--image-size", "32", "--data-threads", count}));
    const auto decoding = threads() - before;
    CHECK(first_inputs(*sets.train, 4).size(0) == 4);
    return decoding;
  };
  // Each for the training and for the test images.
  CHECK(started("1") == 2);
  CHECK(started("3") == 6);
  hvd::shutdown();
}

TEST_CASE("without --data-threads decoding and computing share the cores", "[decoding]") {
  hvd::init();
  const test::TemporaryFolder folder;
  std::string error;
  REQUIRE(write_synthetic_artists(folder.path(), Split::train, 80, 1, error));
  const int before = torch::get_num_threads();
  torch::set_num_threads(64);  // more than there are
  ThreadDemand demand;
  demand.cores = usable_cores();
  demand.computing = 64;
  const ThreadPlan plan = plan_threads(demand);
  const DataSets sets = open_photographs(decoding_options(
      {"--model", "artists-resnet", "--data-dir", folder.path().c_str(), "--image-size", "32"}));
  CHECK(static_cast<std::size_t>(torch::get_num_threads()) == plan.computing);
  torch::set_num_threads(before);
  hvd::shutdown();
}

}  // namespace
}  // namespace hvdrun
