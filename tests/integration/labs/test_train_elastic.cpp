// train --elastic: ranks are lost, and the losses of the steps are those of a run without.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <signal.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/listed_job.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"
#include "tests/integration/helpers/train_output.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

const std::string& mnist() {
  static const TempFolder folder;
  static const bool made = [] {
    const RunResult result = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), "mnist",
                                           folder.path(), "--train", "2000", "--test", "100"}});
    return result.exit_code == 0;
  }();
  REQUIRE(made);
  return folder.path();
}

struct Run {
  int exit_code = 0;
  std::string output;
  std::vector<double> losses;
};

std::size_t lines_in(const std::string& path) {
  std::ifstream file(path);
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  return last;
}

// Trains on three ranks. With a `victim` that slot's first process is killed when so many losses
// are in the file.
Run elastic(const Words& args, const std::string& victim = "", std::size_t kill_at = 0) {
  const TempFolder folder;
  const auto marker = fresh_marker();
  const std::string log = folder.path() + "/losses";
  Words all = {build_path("hvdrun"), "-np",       "3",          "--min-np", "2",
               build_path("train"),  "--elastic", "--loss-log", log};
  all.insert(all.end(), args.begin(), args.end());
  Background job({.args = all, .env = {marker, {"OMP_NUM_THREADS", "1"}}});
  if (!victim.empty()) {
    const auto deadline = std::chrono::steady_clock::now() + 120s;
    while (lines_in(log) < kill_at && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(2ms);
    REQUIRE(lines_in(log) >= kill_at);
    for (const ProcessInfo& process : processes_with(marker.first + "=" + marker.second))
      if (process.name == "train" &&
          process.environ.find("HVD_RANK=" + victim + '\0') != std::string::npos)
        ::kill(process.pid, SIGKILL);
  }
  Run run;
  run.exit_code = job.wait(240s);
  run.output = job.output();
  run.losses = logged_losses(log);
  return run;
}

TEST_CASE("a lost rank changes no step's loss", "[train][elastic]") {
  // With dropout, which must not be another when fewer ranks repeat a step. In float32 the rounding
  // of sums in another order grows over so many steps, on some machines to a tenth of the loss.
  const Words args = {"--data-dir",     mnist(), "--batch-size", "8",   "--epochs", "2",
                      "--seed",         "7",     "--dropout",    "0.5", "--dtype",  "fp64",
                      "--commit-steps", "4"};
  static const Run whole = elastic(args);
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  REQUIRE(whole.losses.size() == 168);
  // In the first epoch and in the second; rank 0 writes the file.
  const std::string victim = GENERATE("0", "2");
  const std::size_t kill_at = GENERATE(20U, 100U);
  const Run broken = elastic(args, victim, kill_at);
  INFO(broken.output);
  CHECK(broken.exit_code == 0);
  CHECK_THAT(broken.output, Catch::Contains("rank " + victim + " was killed by signal 9"));
  CHECK_THAT(broken.output, Catch::Contains("going on with 2 ranks, from step "));
  REQUIRE(broken.losses.size() == whole.losses.size());
  double worst = 0;
  for (std::size_t step = 0; step < whole.losses.size(); ++step)
    worst = std::max(worst, std::abs(broken.losses[step] / whole.losses[step] - 1));
  CHECK(worst < 1e-6);
}

TEST_CASE("every model goes on without a rank that is lost", "[train][elastic]") {
  if (!takes_turn(3)) return;
  static const std::uint64_t seed = soak_seed("models that go on");
  const auto [number, model] = GENERATE(table<std::size_t, std::string>({{0, "mnist-linear"},
                                                                         {1, "svhn-cnn"},
                                                                         {2, "resnet50"},
                                                                         {3, "alexnet-owt"},
                                                                         {4, "artists-resnet"},
                                                                         {5, "wrn-16-10"},
                                                                         {6, "text-nnlm"}}));
  // One of them each time; the soak has all.
  if (soak_count(100) < 100 && seed % 7 != number) return;
  CAPTURE(model);
  Words args = {"--model",        model, "--synthetic", "--batch-size", "2", "--max-steps", "40",
                "--commit-steps", "5"};
  if (model == "wrn-16-10") args.insert(args.end(), {"--depth", "10", "--width", "1"});
  if (model == "resnet50" || model == "alexnet-owt" || model == "artists-resnet")
    args.insert(args.end(), {"--width", "8", "--image-size", "64"});
  const Run run = elastic(args, "1", 10);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK(run.losses.size() == 40);
  CHECK_THAT(run.output, Catch::Contains("going on with 2 ranks, from step "));
  CHECK_THAT(run.output, Catch::Contains("test accuracy "));
}

TEST_CASE("checkpoints of an elastic run are those of the job", "[train][elastic]") {
  const TempFolder folder;
  const Words args = {"--data-dir",       mnist(),      "--model",        "mnist-linear",
                      "--epochs",         "3",          "--batch-size",   "4",
                      "--seed",           "7",          "--commit-steps", "4",
                      "--checkpoint-dir", folder.path()};
  const Run run = elastic(args, "0", 200);
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  Words more = args;
  more[5] = "4";
  more.insert(more.end(), {"--resume", folder.path()});
  const Run next = elastic(more);
  INFO(next.output);
  CHECK(next.exit_code == 0);
  CHECK_THAT(next.output, Catch::Contains("epoch 4/4"));
  CHECK_THAT(next.output, !Catch::Contains("epoch 3/4"));
}

// A new host knows of more slots than there were at the start.
TEST_CASE("hosts that come and go change no step's loss", "[train][elastic]") {
  if (!takes_turn(2)) return;
  constexpr std::size_t kSteps = 125;  // of an epoch
  const TempFolder folder;
  std::string said;
  const auto losses_of = [&](const std::string& name, const auto& change) {
    ListedJob job("a:2\n");
    job.start({"-np", "2", "--min-np", "1"},
              {"env", "OMP_NUM_THREADS=1", build_path("train"), "--elastic", "--data-dir", mnist(),
               "--batch-size", "8", "--epochs", "12", "--seed", "7", "--dtype", "fp64",
               "--commit-steps", "4", "--loss-log", folder.path() + "/" + name});
    change(job);
    job.check_exit(0);
    said = job.output();
    return logged_losses(folder.path() + "/" + name);
  };
  const auto whole = losses_of("whole", [](ListedJob&) {});
  REQUIRE(whole.size() == 12 * kSteps);
  const auto changed = losses_of("changed", [](ListedJob& job) {
    job.wait_for("epoch 1  step 10/");
    job.list("a:2\nb:2\n");
    job.wait_for("going on with 4 ranks, from step ");
    job.list("a:1\nb:2\n");
    job.wait_for("going on with 3 ranks, from step ");
  });
  INFO(said);
  CHECK(times_in(said, "the new ranks have the state") == 1);
  REQUIRE(changed.size() == whole.size());
  std::smatch came;
  REQUIRE(std::regex_search(said, came,
                            std::regex("going on with 4 ranks, from step (\\d+) of epoch (\\d+)")));
  // Sums in another order are rounded otherwise, and that grows.
  const auto begin = static_cast<std::size_t>(std::stoi(came[2]) - 1) * kSteps +
                     static_cast<std::size_t>(std::stoi(came[1]));
  double worst = 0;
  for (std::size_t step = 0; step < std::min(begin + 100, whole.size()); ++step)
    worst = std::max(worst, std::abs(changed[step] / whole[step] - 1));
  CHECK(worst < 1e-6);
}

TEST_CASE("where the batch of a rank stays, the steps and the rate follow the ranks",
          "[train][elastic]") {
  constexpr std::size_t kEpochs = 12;
  const TempFolder folder;
  ListedJob job("a:2\n");
  job.start({"-np", "2", "--min-np", "1"}, {"env",
                                            "OMP_NUM_THREADS=1",
                                            build_path("train"),
                                            "--elastic",
                                            "--keep-local-batch",
                                            "--data-dir",
                                            mnist(),
                                            "--batch-size",
                                            "8",
                                            "--epochs",
                                            std::to_string(kEpochs),
                                            "--seed",
                                            "7",
                                            "--lr",
                                            "0.01",
                                            "--commit-steps",
                                            "4",
                                            "--loss-log",
                                            folder.path() + "/losses",
                                            "--metrics-file",
                                            folder.path() + "/metrics.json"});
  job.wait_for("epoch 1  step 10/125");
  job.list("a:2\nb:2\n");
  job.wait_for("going on with 4 ranks, from step ");
  job.wait_for("/63");
  job.check_exit(0);
  INFO(job.output());
  std::smatch came;
  const std::string said = job.output();
  REQUIRE(
      std::regex_search(said, came,
                        std::regex("going on with 4 ranks, from step (\\d+) of epoch (\\d+), at "
                                   "4 times the rate of one \\(0.04\\)")));
  const auto first = static_cast<std::size_t>(std::stoi(came[1]));
  const auto epoch = static_cast<std::size_t>(std::stoi(came[2]));
  // So many steps of 16 samples came before, and of 32 after.
  const std::size_t steps = logged_losses(folder.path() + "/losses").size();
  bool fits = false;
  for (std::size_t before = 0; before < 125; before += 4)
    fits = fits || (first == 63 - std::min<std::size_t>(63, (2000 - before * 16 + 31) / 32) &&
                    steps == 125 * (epoch - 1) + before + 63 - first + 63 * (kEpochs - epoch));
  CAPTURE(first, epoch, steps);
  CHECK(fits);
  CHECK(last_line(folder.path() + "/metrics.json").find("\"lr\": 0.04}") != std::string::npos);
  CHECK_THAT(said, Catch::Contains("test accuracy "));
}

TEST_CASE("a batch of all ranks that outgrows the data is all of them", "[train][elastic]") {
  ListedJob job("a:2\n");
  job.start({"-np", "2", "--min-np", "1"},
            {"env", "OMP_NUM_THREADS=1", build_path("train"), "--elastic", "--keep-local-batch",
             "--model", "mnist-linear", "--data-dir", mnist(), "--batch-size", "600", "--epochs",
             "1000000", "--commit-steps", "1", "--warmup-epochs", "2"});
  job.wait_for("epoch 3/1000000");
  job.list("a:2\nb:2\n");
  const std::string said = job.wait_for("going on with 4 ranks, from step ");
  job.wait_for("/1000000  loss ", times_in(said, "/1000000  loss ") + 20);
  ::kill(job.pid(), SIGINT);
  job.check_exit(130);
}

TEST_CASE("the course's program trains on while hosts come and go", "[elastic]") {
  if (!takes_turn(2)) return;
  const TempFolder artifacts;
  ListedJob job("a:2\n");
  job.start({"-np", "2", "--min-np", "1"},
            {"env", "OCI__SYNC_DIR=" + artifacts.path(), "OMP_NUM_THREADS=1",
             build_path("tests/integration/programs/elastic"), mnist(), "60"});
  job.wait_for("epoch 2: loss ");
  job.list("a:2\nb:1\n");
  job.wait_for("rank 2 of 3, from sample ");
  job.list("a:1\nb:1\n");
  job.wait_for("the job goes on with 2 ranks");
  job.check_exit(0);
  // Each sample once in each epoch, whoever was there.
  CHECK(times_in(job.output(), " over 2000 samples") == 60);
  CHECK(times_in(job.output(), ": loss ") == 60);
  CHECK(lines_in(artifacts.path() + "/artifacts/logs/loss.csv") == 60);
  CHECK(std::filesystem::exists(artifacts.path() + "/artifacts/ckpts/checkpoint-60.pt"));
  const std::regex accuracy("accuracy: ([0-9.]+) % of 100");
  std::smatch found;
  REQUIRE(std::regex_search(job.output(), found, accuracy));
  CHECK(std::stod(found[1]) > 90);
}

TEST_CASE("what goes without --elastic, or against it, is bad usage", "[train][elastic]") {
  const RunResult alone = run({.args = {build_path("train"), "--commit-steps", "5"}});
  CHECK(alone.exit_code == 64);
  CHECK_THAT(alone.err, Catch::Contains("--commit-steps is of --elastic"));
  const RunResult both = run({.args = {build_path("train"), "--elastic", "--use-adasum"}});
  CHECK(both.exit_code == 64);
  CHECK_THAT(both.err, Catch::Contains("give one of them"));
}

TEST_CASE("without a launcher, or without --min-np, an elastic run is an ordinary one",
          "[train][elastic]") {
  const Words args = {build_path("train"), "--elastic",    "--data-dir", mnist(),
                      "--model",           "mnist-linear", "--epochs",   "1"};
  const RunResult alone = run({.args = args, .limit = 120s});
  INFO(alone.err);
  CHECK(alone.exit_code == 0);
  Words two = {"-np", "2"};
  two.insert(two.end(), args.begin(), args.end());
  const RunResult job = hvdrun(two, {.limit = 120s});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.out, Catch::Contains("test accuracy "));
}

}  // namespace
}  // namespace hvdrun::test
