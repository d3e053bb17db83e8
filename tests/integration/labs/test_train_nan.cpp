// Runs whose loss becomes no number: said, ended or gone on with, and the checkpoints that are
// left.
#include <filesystem>
#include <set>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/train_output.h"

namespace hvdrun::test {
namespace {

using Catch::Contains;
using namespace std::chrono_literals;

const std::string& digits_for_nan() {
  static const TempFolder folder;
  static const RunResult made =
      run({.args = {build_path("worker/labs/data/hvd-make-dataset"), "mnist", folder.path(),
                    "--train", "640", "--test", "64"}});
  REQUIRE(made.exit_code == 0);
  return folder.path();
}

// Ten steps an epoch.
RunResult train_two(std::vector<std::string> args) {
  std::vector<std::string> all = {
      "-np", "2", build_path("train"), "--data-dir", digits_for_nan(), "--batch-size", "32"};
  all.insert(all.end(), args.begin(), args.end());
  return hvdrun(all, {.env = {{"OMP_NUM_THREADS", "1"}}, .limit = 120s});
}

std::set<std::string> checkpoints_of(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

TEST_CASE("a loss that becomes NaN ends the run with its own code, and is named", "[train][nan]") {
  const TempFolder files;
  const std::string states = files.path() + "/states";
  const std::string losses = files.path() + "/losses";
  const bool logged = GENERATE(false, true);
  std::vector<std::string> args = {"--lr", "1e30",           "--epochs", "5", "--checkpoint-dir",
                                   states, "--log-interval", "0"};
  if (logged) args.insert(args.end(), {"--loss-log", losses});
  const RunResult result = train_two(args);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 90);
  CHECK_THAT(result.err, Contains("train: epoch 1, step ") && Contains("the loss of rank ") &&
                             Contains(", at learning rate 2e+30: stopped; ") &&
                             Contains("--on-nan") && Contains("--trace-nan"));
  CHECK(result.err.find(">:train: ") == result.err.rfind(">:train: "));  // one rank, one line
  CHECK(checkpoints_of(states).empty());
  // The losses before are not lost.
  if (logged) CHECK_FALSE(lines_of(losses).empty());
}

TEST_CASE("where NaN begins is told when it is asked for", "[train][nan]") {
  const RunResult result = train_two({"--lr", "1e30", "--trace-nan"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 90);
  CHECK_THAT(result.err, Contains("; it begins in ") && Contains("(aten::"));
}

TEST_CASE("a run that goes on in spite of NaN leaves its last good checkpoint", "[train][nan]") {
  const TempFolder files;
  const std::string states = files.path() + "/states";
  const RunResult good = train_two({"--epochs", "2", "--checkpoint-dir", states});
  INFO(good.out << good.err);
  REQUIRE(good.exit_code == 0);
  const RunResult bad = train_two({"--epochs", "4", "--checkpoint-dir", states, "--keep", "1",
                                   "--resume", states, "--lr", "1e30", "--on-nan", "warn"});
  INFO(bad.out << bad.err);
  CHECK(bad.exit_code == 0);
  CHECK_THAT(bad.err,
             Contains("epoch 3, step ") && Contains("epoch 3: the loss was not finite in ") &&
                 Contains(" is not finite after its last step; no checkpoint of it is written"));
  CHECK(checkpoints_of(states) == std::set<std::string>{"epoch-000001.ckpt", "epoch-000002.ckpt"});
}

TEST_CASE("steps that are left out end the run when there are no others", "[train][nan]") {
  const RunResult result = train_two({"--lr", "1e30", "--on-nan", "skip", "--epochs", "3"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 90);
  CHECK_THAT(result.err, Contains("; the step is left out") &&
                             Contains("steps were left out: loss or gradients were not finite") &&
                             Contains("no step could be made, none was finite: stopped"));
}

}  // namespace
}  // namespace hvdrun::test
