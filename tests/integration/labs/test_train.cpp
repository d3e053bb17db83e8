// train on several ranks: that it learns, that it computes the same as one process, and that the
// comparison would notice if it did not.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/train_output.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

void make_dataset(const std::string& kind, const TempFolder& folder, const std::string& train,
                  const std::string& test) {
  const RunResult result = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), kind,
                                         folder.path(), "--train", train, "--test", test}});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
}

const std::string& data_folder() {
  static const TempFolder folder;
  static const bool made = [] {
    make_dataset("mnist", folder, "4000", "1000");
    return true;
  }();
  REQUIRE(made);
  return folder.path();
}

RunResult train(const std::string& np, std::vector<std::string> args, RunOptions options = {},
                const std::string& data = data_folder()) {
  std::vector<std::string> all = {"-np", np, build_path("train"), "--data-dir", data};
  all.insert(all.end(), args.begin(), args.end());
  options.limit = 240s;
  options.env.emplace_back("OMP_NUM_THREADS", "1");
  return hvdrun(all, options);
}

std::vector<double> losses(const std::string& np, const std::string& batch, int steps,
                           RunOptions options = {}, std::vector<std::string> more = {},
                           double total_lr = 0.04) {
  TempFolder folder;
  const std::string file = folder.path() + "/losses";
  // --lr is per rank and scaled by size: the product is what must agree.
  const std::string lr = std::to_string(total_lr / std::stod(np));
  std::vector<std::string> args = {"--batch-size", batch,
                                   "--lr",         lr,
                                   "--dropout",    "0",
                                   "--seed",       "7",
                                   "--max-steps",  std::to_string(steps),
                                   "--loss-log",   file};
  args.insert(args.end(), more.begin(), more.end());
  const RunResult result = train(np, args, std::move(options));
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<double> values = logged_losses(file);
  REQUIRE(values.size() == static_cast<std::size_t>(steps));
  return values;
}

// The dtype for comparisons: sums in another order are rounded otherwise, and in float32 that grows
// over 40 steps, on some machines to a thousandth of the loss.
const std::vector<std::string> kDouble = {"--dtype", "fp64"};
constexpr double kTolerance = 1e-6;

TEST_CASE("four ranks with a quarter of the batch compute what one process does", "[train]") {
  if (!takes_turn(3)) return;
  const auto alone = losses("1", "64", 40, {}, kDouble);
  const auto together = losses("4", "16", 40, {}, kDouble);
  CAPTURE(largest_difference(alone, together));
  CHECK(largest_difference(alone, together) < kTolerance);
  CHECK(alone.back() < 0.9 * alone.front());

  // The same comparison with one allreduce left out: were it still within tolerance, the check
  // above would prove nothing.
  const auto skipped = losses(
      "4", "16", 40,
      {.env = {{"LD_PRELOAD", build_path("tests/integration/programs/libleave_out_reduction.so")},
               {"LEAVE_OUT_REDUCTION", "10"}}},
      kDouble);
  CAPTURE(largest_difference(alone, skipped));
  CHECK(largest_difference(alone, skipped) > 10 * kTolerance);
}

TEST_CASE("the same ranks and seed give the same losses, bit for bit", "[train]") {
  CHECK(losses("2", "16", 20) == losses("2", "16", 20));
}

TEST_CASE("the main job learns and prints from rank 0, over Unix sockets and TCP", "[train]") {
  for (const char* control : {"unix", "tcp"}) {
    CAPTURE(control);
    const RunResult result =
        hvdrun({"--control", control, "-np", "4", "-H", "localhost:4", build_path("train"),
                "--data-dir", data_folder(), "--epochs", "4", "--batch-size", "32"},
               {.limit = 240s});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.out.find("[1]<stdout>") == std::string::npos);
    CHECK(final_accuracy(result) > 70);
    for (const char* part : {"epoch 1/4  loss ", "epoch 4/4  loss ", "accuracy ", " images/s"})
      CHECK(result.out.find(part) != std::string::npos);
  }
}

TEST_CASE("a checkpoint goes from four ranks to one and back", "[train]") {
  TempFolder folder;
  const std::string file = folder.path() + "/state";
  RunResult result = train("4", {"--epochs", "1", "--checkpoint", file});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  result = train("1", {"--epochs", "2", "--checkpoint", file, "--resume", file});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("after 1 epochs, 16 steps"));
  CHECK_THAT(result.out, !Catch::Contains("epoch 1/2") && Catch::Contains("epoch 2/2"));
  result = train("4", {"--epochs", "3", "--resume", file});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("after 2 epochs, 79 steps"));
  CHECK_THAT(result.out, Catch::Contains("epoch 3/3") && Catch::Contains("test accuracy"));
}

TEST_CASE("a warm-up begins with the rate of one rank", "[train]") {
  const auto all_at_once = losses("2", "16", 20, {}, kDouble);
  const auto half_of_it = losses("2", "16", 20, {}, kDouble, 0.02);
  const auto warming_up =
      losses("2", "16", 20, {}, {"--dtype", "fp64", "--warmup-epochs", "1000000"});
  CHECK(largest_difference(half_of_it, warming_up) < 1e-4);  // the rate has begun to grow
  CHECK(largest_difference(all_at_once, warming_up) > 10 * kTolerance);
}

TEST_CASE("house numbers are learned from their MAT-files", "[train]") {
  if (!takes_turn(3)) return;
  const TempFolder data;
  make_dataset("svhn", data, "2000", "400");
  const RunResult result = train("2",
                                 {"--model", "svhn-cnn", "--epochs", "3", "--batch-size", "8",
                                  "--lr", "0.025", "--dropout", "0"},
                                 {}, data.path());
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(final_accuracy(result) > 60);  // a linear model: tests/unit/worker/labs
}

// A Wide ResNet so small, and a set so small, that fifteen epochs are seconds.
RunResult train_wide_resnet(std::vector<std::string> args, const std::string& data) {
  std::vector<std::string> all = {"--model", "wrn-16-10",    "--depth", "10",     "--width",
                                  "1",       "--batch-size", "16",      "--seed", "3"};
  all.insert(all.end(), args.begin(), args.end());
  RunResult result = train("2", all, {}, data);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  return result;
}

TEST_CASE("the Wide ResNet learns clothes that a linear model does not", "[train]") {
  if (!takes_turn(3)) return;
  const TempFolder data;
  make_dataset("fashion", data, "2000", "300");
  const RunResult wide =
      train_wide_resnet({"--optimizer", "adam", "--lr", "0.002", "--warmup-epochs", "0", "--epochs",
                         "3", "--target-accuracy", "0.999"},
                        data.path());
  CHECK(final_accuracy(wide) > 65);
  const RunResult linear =
      train("2", {"--model", "mnist-linear", "--epochs", "10"}, {}, data.path());
  CHECK(final_accuracy(linear) < 40);
}

// Tags and values of an event file of TensorBoard, in order.
std::vector<std::pair<std::string, float>> scalars_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::pair<std::string, float>> scalars;
  std::size_t at = 0;
  while (at < bytes.size()) {  // length, its CRC, content, its CRC
    std::uint64_t length = 0;
    REQUIRE(at + 16 <= bytes.size());
    std::memcpy(&length, bytes.data() + at, sizeof length);
    REQUIRE(at + 16 + length <= bytes.size());
    const std::string record = bytes.substr(at + 12, length);
    at += 16 + length;
    const std::size_t tag = std::min(record.find("train/"), record.find("validation/"));
    if (tag == record.npos) continue;  // the first has a version only
    const std::size_t size = static_cast<unsigned char>(record.at(tag - 1));
    float value = 0;
    REQUIRE(record.at(tag + size) == '\x15');
    std::memcpy(&value, record.data() + tag + size + 1, sizeof value);
    scalars.emplace_back(record.substr(tag, size), value);
  }
  return scalars;
}

// A line of JSON for each epoch, and the same numbers for TensorBoard.
void check_epoch_files(const std::string& metrics, const std::string& logs, int epochs) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(logs)) names.push_back(entry.path());
  REQUIRE(names.size() == 1);
  const auto scalars = scalars_of(names.front());
  const auto lines = lines_of(metrics);
  REQUIRE(lines.size() == static_cast<std::size_t>(epochs));
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const std::string& line = lines[static_cast<std::size_t>(epoch) - 1];
    CHECK_THAT(line, Catch::StartsWith("{\"epoch\": " + std::to_string(epoch) + ","));
    for (const auto& [tag, key] :
         {std::pair("train/loss", "loss"), std::pair("train/accuracy", "accuracy"),
          std::pair("validation/loss", "validation_loss"),
          std::pair("validation/accuracy", "validation_accuracy")}) {
      const auto found = line.find("\"" + std::string(key) + "\": ");
      REQUIRE(found != line.npos);
      const double value = std::stod(line.substr(found + std::string(key).size() + 4));
      int seen = 0;
      for (const auto& [name, scalar] : scalars)
        if (name == tag && ++seen == epoch) CHECK(scalar == Approx(value).epsilon(1e-5));
      CHECK(seen == epochs);
    }
  }
}

TEST_CASE("the Wide ResNet's rate warms up and drops, also when it is resumed", "[train]") {
  if (!takes_turn(3)) return;
  const TempFolder data;
  const TempFolder files;
  make_dataset("mnist", data, "64", "32");
  const std::string state = files.path() + "/state";
  const std::string never = "0.999";
  const std::string metrics = files.path() + "/metrics";
  RunResult result =
      train_wide_resnet({"--epochs", "15", "--checkpoint", state, "--target-accuracy", never,
                         "--metrics-file", metrics, "--log-dir", files.path() + "/logs"},
                        data.path());
  CHECK_THAT(result.out, Catch::Contains("warm-up over 5 epochs") &&
                             Catch::Contains("lr 0.002 after 15 epochs"));
  const auto rate_of = [&](int epoch) {
    const auto at = result.out.find("epoch " + std::to_string(epoch) + "/");
    const auto lr = result.out.find("  lr ", at);
    REQUIRE(at != std::string::npos);
    REQUIRE(lr < result.out.find('\n', at));
    return std::stod(result.out.substr(lr + 5));
  };
  check_epoch_files(metrics, files.path() + "/logs", 15);
  // Two steps an epoch: the epoch and a half that are done, as Horovod counts them.
  CHECK(rate_of(1) == Approx(0.01 * (0.5 + 0.5) * (1 + 1.0 / 5)));
  CHECK(rate_of(5) == Approx(0.02));
  CHECK(rate_of(15) == Approx(0.02));
  const std::string unbroken = files.path() + "/unbroken";
  const std::string resumed = files.path() + "/resumed";
  result = train_wide_resnet(
      {"--epochs", "16", "--resume", state, "--loss-log", resumed, "--target-accuracy", never},
      data.path());
  CHECK(rate_of(16) == Approx(0.002));
  const std::string validated = result.out.substr(result.out.find("validation"));
  // Bit for bit what the run that was not broken gives: momentum, running statistics, augmentation.
  result = train_wide_resnet({"--epochs", "16", "--loss-log", unbroken, "--target-accuracy", never},
                             data.path());
  CHECK(rate_of(16) == Approx(0.002));
  CHECK(result.out.substr(result.out.rfind("validation")) == validated);
  const auto all = lines_of(unbroken);
  REQUIRE(all.size() == 32);
  CHECK(lines_of(resumed) == std::vector<std::string>(all.end() - 2, all.end()));
}

TEST_CASE("a layer-wise optimizer is resumed bit for bit, and only by itself", "[train]") {
  if (!takes_turn(3)) return;
  const TempFolder data;
  const TempFolder files;
  make_dataset("mnist", data, "64", "32");
  const std::string state = files.path() + "/state";
  const std::string optimizer = GENERATE("lamb", "novograd");
  train_wide_resnet({"--epochs", "2", "--optimizer", optimizer, "--checkpoint", state},
                    data.path());
  std::vector<std::string> losses_of;
  for (const bool resumed : {false, true}) {
    const std::string file = files.path() + "/losses";
    std::vector<std::string> args = {"--epochs", "3", "--optimizer", optimizer, "--loss-log", file};
    if (resumed) args.insert(args.end(), {"--resume", state});
    train_wide_resnet(args, data.path());
    const auto lines = lines_of(file);
    // A resumed run goes on in it.
    REQUIRE(lines.size() == (resumed ? 8 : 6));
    losses_of.push_back(lines[lines.size() - 2] + " " + lines.back());
  }
  CHECK(losses_of[0] == losses_of[1]);
  const RunResult other =
      train("2", {"--model", "wrn-16-10", "--depth", "10", "--width", "1", "--resume", state}, {},
            data.path());
  CHECK(other.exit_code == 66);
  CHECK_THAT(other.err,
             Catch::Contains("a checkpoint of the optimizer '" + optimizer + "', not 'sgd'"));
}

TEST_CASE("a run ends when it has been above its target for a while, and stays ended", "[train]") {
  const TempFolder data;
  const TempFolder files;
  make_dataset("mnist", data, "64", "32");
  const std::string state = files.path() + "/state";
  // Anything is above nearly nothing.
  const std::vector<std::string> args = {"--epochs",          "9",    "--patience",   "3",
                                         "--target-accuracy", "1e-9", "--checkpoint", state};
  RunResult result = train_wide_resnet(args, data.path());
  CHECK_THAT(result.out, Catch::Contains("epoch 3/9") && !Catch::Contains("epoch 4/9"));
  CHECK_THAT(result.out, Catch::Contains("above 1e-07 % for 3 epochs in a row: done"));
  result = train_wide_resnet(
      {"--epochs", "9", "--patience", "3", "--target-accuracy", "1e-9", "--resume", state},
      data.path());
  CHECK_THAT(result.out, !Catch::Contains("epoch 4/9") && Catch::Contains("test accuracy"));
}

TEST_CASE("a fault is one line from one rank, and an exit code", "[train]") {
  const std::string ranks = GENERATE("1", "4");
  CAPTURE(ranks);
  TempFolder folder;
  std::vector<std::string> args = {"--epochs", "1"};
  std::string data = data_folder();
  int exit_code = 66;
  std::string text;
  SECTION("no data") {
    data = "/nonexistent";
    text = "/nonexistent/train-images-idx3-ubyte: not found";
  }
  SECTION("data cut short") {
    REQUIRE(run({.args = {"sh", "-c",
                          "cp " + data_folder() + "/* " + folder.path() + " && truncate -s 5000 " +
                              folder.path() + "/train-images*"}})
                .exit_code == 0);
    data = folder.path();
    text = "train-images-idx3-ubyte";
  }
  SECTION("no checkpoint") {
    args.insert(args.end(), {"--resume", "/nonexistent"});
    text = "/nonexistent: No such file or directory";
  }
  SECTION("something else than a checkpoint") {
    args.insert(args.end(), {"--resume", data_folder() + "/train-labels-idx1-ubyte"});
    text = "not a checkpoint of train, or cut short";
  }
  SECTION("a checkpoint that cannot be written") {
    args.insert(args.end(), {"--checkpoint", "/nonexistent/file"});
    text = "/nonexistent/file: No such file or directory";
    exit_code = 73;
  }
  SECTION("a loss log that cannot be written") {
    args.insert(args.end(), {"--loss-log", "/nonexistent/file"});
    text = "/nonexistent/file: No such file or directory";
    exit_code = 73;
  }
  SECTION("a metrics file that cannot be written") {
    args.insert(args.end(), {"--metrics-file", "/nonexistent/file"});
    text = "/nonexistent/file: No such file or directory";
    exit_code = 73;
  }
  SECTION("more images per step than there are") {
    args.insert(args.end(), {"--batch-size", "5000"});
    text = "4000 training images are fewer than one step takes";
    exit_code = 64;
  }
  SECTION("an option that is none") {
    args = {"--epochs", "none"};
    text = "'none'";
    exit_code = 64;
  }
  const RunResult result = train(ranks, args, {}, data);
  INFO(result.out << result.err);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, Catch::Contains(text));
  // The rank's own lines; the launcher's summary repeats them.
  std::size_t lines = 0;
  for (auto at = result.err.find("]<stderr>:train: "); at != std::string::npos;
       at = result.err.find("]<stderr>:train: ", at + 1))
    ++lines;
  CHECK(lines >= 1);
  // A fault of the command line is seen by every rank before it knows of others.
  if (text != "'none'") CHECK(lines == 1);
}

}  // namespace
}  // namespace hvdrun::test
