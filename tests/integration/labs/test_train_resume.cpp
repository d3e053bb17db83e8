// A run that was broken after an epoch goes on bit for bit, with dropout, augmentation and momentum
// as they are by default: every lab model but wrn-16-10, which test_train.cpp has.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/train_output.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

struct ResumeCase {
  std::string data;
  std::vector<std::string> options;  // --model first
  // Options of the run that is broken, not of the one that goes on.
  std::vector<std::string> first_only = {};
};

struct ResumeRun {
  std::vector<std::string> losses;  // a line for each step
  std::string test;                 // the last line's accuracy and loss
};

ResumeRun resume_run(const ResumeCase& one, const std::string& folder,
                     const std::vector<std::string>& more) {
  const TempFolder out;
  const std::string log = out.path() + "/losses";
  std::vector<std::string> args = {"-np",        "2", build_path("train"), "--data-dir", folder,
                                   "--loss-log", log, "--batch-size",      "8"};
  args.insert(args.end(), one.options.begin(), one.options.end());
  const bool first = std::find(more.begin(), more.end(), "--resume") == more.end();
  if (first) args.insert(args.end(), one.first_only.begin(), one.first_only.end());
  args.insert(args.end(), more.begin(), more.end());
  RunOptions options;
  options.limit = 120s;
  options.env.emplace_back("OMP_NUM_THREADS", "1");
  const RunResult result = hvdrun(args, options);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const auto at = result.out.find("test accuracy ");
  REQUIRE(at != std::string::npos);
  return {lines_of(log), result.out.substr(at, result.out.find('\n', at) - at)};
}

}  // namespace

TEST_CASE("a broken run goes on bit for bit, model by model", "[train][resume]") {
  if (!takes_turn(3)) return;
  const std::vector<ResumeCase> cases = {
      {"mnist", {"--model", "mnist-cnn"}},
      {"mnist", {"--model", "mnist-linear"}},
      {"svhn", {"--model", "svhn-cnn"}},
      {"imagenet",
       {"--model", "resnet50", "--classes", "10", "--width", "8", "--image-size", "64"}},
      {"imagenet",
       {"--model", "alexnet-owt", "--classes", "10", "--width", "8", "--image-size", "64"}},
      // The sentences that are held back, and the words that have vectors, follow from the seed.
      {"artists",
       {"--model", "artists-resnet", "--width", "8", "--image-size", "64"},
       {"--seed", "7"}},
      {"text", {"--model", "text-nnlm", "--words", "4096"}, {"--seed", "7"}},
      {"text",
       {"--model", "text-nnlm", "--words", "4096", "--vocabulary", "50", "--sparse-embedding"},
       {"--seed", "7"}},
  };
  const std::uint64_t seed = soak_seed("resume");
  for (const ResumeCase& one : cases) {
    if (!takes_case(static_cast<std::size_t>(&one - cases.data()), seed, one.options[1])) continue;
    const TempFolder folder;
    const RunResult made = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), one.data,
                                         folder.path(), "--train", "120", "--test", "20"}});
    INFO(one.options[1] << ": " << made.err);
    REQUIRE(made.exit_code == 0);
    const std::string state = folder.path() + "/state";
    const ResumeRun whole = resume_run(one, folder.path(), {"--epochs", "2"});
    const ResumeRun first =
        resume_run(one, folder.path(), {"--epochs", "1", "--checkpoint", state});
    const ResumeRun rest = resume_run(one, folder.path(), {"--epochs", "2", "--resume", state});
    REQUIRE(first.losses.size() + rest.losses.size() == whole.losses.size());
    CHECK(first.losses.size() >= 4);
    CHECK(rest.losses == std::vector<std::string>(
                             whole.losses.end() - static_cast<std::ptrdiff_t>(rest.losses.size()),
                             whole.losses.end()));
    CHECK(rest.test == whole.test);
    CHECK(rest.losses != first.losses);
  }
}

TEST_CASE("a job that starts again goes on from its own checkpoints", "[train][resume][restarts]") {
  const TempFolder folder;
  const RunResult made = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), "mnist",
                                       folder.path(), "--train", "120", "--test", "20"}});
  REQUIRE(made.exit_code == 0);
  const auto last_line = [&](const std::string& name, const std::string& before) {
    const std::string kept = folder.path() + "/" + name;
    RunOptions options;
    options.limit = 120s;
    options.env.emplace_back("OMP_NUM_THREADS", "1");
    // Rank 1 of the first start is killed in its second epoch, when it has the first's checkpoint.
    const RunResult result =
        hvdrun({"-np", "2", "--max-restarts", "1", "sh", "-c", before + "exec \"$@\"", "sh",
                build_path("train"), "--data-dir", folder.path(), "--batch-size", "2", "--epochs",
                "6", "--checkpoint-dir", kept},
               options);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    const bool fails = !before.empty();
    CHECK((result.err.find("restart 1 of 1 in 1 s") != std::string::npos) == fails);
    CHECK((result.out.find("resumed from " + kept + "/epoch-") != std::string::npos) == fails);
    const auto at = result.out.find("test accuracy ");
    REQUIRE(at != std::string::npos);
    return result.out.substr(at, result.out.find('\n', at) - at);
  };
  const std::string kill = "p=$$; [ $HVD_RANK.$HVD_RESTART_COUNT = 1.0 ] && { until [ -e " +
                           folder.path() +
                           "/failed/epoch-000001.ckpt ]; do sleep 0.02; done; kill -9 $p; } & ";
  CHECK(last_line("failed", kill) == last_line("whole", ""));
}

}  // namespace hvdrun::test
