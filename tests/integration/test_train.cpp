// train on several ranks: that it learns, that it computes the same as one process, and that the
// comparison would notice if it did not.
#include <cmath>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/integration/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

const std::string& data_folder() {
  static const TempFolder folder;
  static const bool made = [] {
    const RunResult result = run({.args = {build_path("worker/data/hvd-make-dataset"), "mnist",
                                           folder.path(), "--train", "4000", "--test", "1000"}});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
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
                           RunOptions options = {}, std::vector<std::string> more = {}) {
  TempFolder folder;
  const std::string file = folder.path() + "/losses";
  // --lr is per rank and scaled by size: the product is what must agree.
  const std::string lr = std::to_string(0.04 / std::stod(np));
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
  std::vector<double> values;
  std::ifstream in(file);
  for (double value = 0; in >> value;) values.push_back(value);
  REQUIRE(values.size() == static_cast<std::size_t>(steps));
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return largest;
}

// Sums in another order: rounding of float32, grown over 50 steps.
constexpr double kTolerance = 1e-4;

TEST_CASE("four ranks with a quarter of the batch compute what one process does", "[train]") {
  const auto alone = losses("1", "64", 50);
  const auto together = losses("4", "16", 50);
  CAPTURE(largest_difference(alone, together));
  CHECK(largest_difference(alone, together) < kTolerance);
  CHECK(alone.back() < 0.9 * alone.front());

  // The same comparison with one allreduce left out: were it still within tolerance, the check
  // above would prove nothing.
  const auto skipped = losses("4", "16", 50, {.env = {{"HVD_FAULT_SKIP_ALLREDUCE", "10"}}});
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
                "--data-dir", data_folder(), "--epochs", "4"},
               {.limit = 240s});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.out.find("[1]<stdout>") == std::string::npos);
    double accuracy = 0;
    const auto at = result.out.find("test accuracy ");
    REQUIRE(at != std::string::npos);
    REQUIRE(std::sscanf(result.out.c_str() + at, "test accuracy %lf", &accuracy) == 1);
    CHECK(accuracy > 70);
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
  CHECK_THAT(result.out, Catch::Contains("after 1 epochs, 31 steps"));
  CHECK_THAT(result.out, !Catch::Contains("epoch 1/2") && Catch::Contains("epoch 2/2"));
  result = train("4", {"--epochs", "3", "--resume", file});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("after 2 epochs, 156 steps"));
  CHECK_THAT(result.out, Catch::Contains("epoch 3/3") && Catch::Contains("test accuracy"));
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
  CHECK(lines <= 2);
}

}  // namespace
}  // namespace hvdrun::test
