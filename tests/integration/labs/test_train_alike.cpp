// Every lab model that test_train.cpp and test_train_text.cpp have not: four ranks with a quarter
// of the batch each compute what one process does, batch normalisation over all of them included.
#include <cstdint>
#include <cstdio>
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

struct AlikeCase {
  std::string model;
  std::string data;
  double lr;  // of all ranks together
  std::vector<std::string> options;
  bool normalises;
};

// The losses of 8 steps of 16 samples each.
std::vector<double> losses_of(const AlikeCase& one, const std::string& folder, int ranks,
                              bool over_all_ranks) {
  const TempFolder out;
  const std::string log = out.path() + "/losses";
  std::vector<std::string> args = {"-np",
                                   std::to_string(ranks),
                                   build_path("train"),
                                   "--model",
                                   one.model,
                                   "--data-dir",
                                   folder,
                                   "--dropout",
                                   "0",
                                   "--no-augment",
                                   "--dtype",
                                   "fp64",
                                   "--max-steps",
                                   "8",
                                   "--loss-log",
                                   log,
                                   "--batch-size",
                                   std::to_string(16 / ranks),
                                   "--lr",
                                   std::to_string(one.lr / ranks)};
  args.insert(args.end(), one.options.begin(), one.options.end());
  if (one.normalises && over_all_ranks) args.emplace_back("--sync-batch-norm");
  RunOptions options;
  options.limit = 240s;
  options.env.emplace_back("OMP_NUM_THREADS", "1");
  const RunResult result = hvdrun(args, options);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<double> values = logged_losses(log);
  REQUIRE(values.size() == 8);
  return values;
}

// In float64: ResNet-50's gradients of so few samples lose up to 5 % to the rounding of float32,
// in Python's PyTorch as well.
constexpr double kAlikeTolerance = 1e-6;

}  // namespace

TEST_CASE("one process and four ranks compute the same, model by model", "[train][alike]") {
  if (!takes_turn(3)) return;
  const std::vector<AlikeCase> cases = {
      {"mnist-linear", "mnist", 0.04, {}, false},
      {"svhn-cnn", "svhn", 0.02, {}, true},
      {"wrn-16-10",
       "fashion",
       0.01,
       {"--depth", "10", "--width", "1", "--warmup-epochs", "0"},
       true},
      {"resnet50",
       "imagenet",
       0.0001,  // its gradients are large: at 0.01 a difference grows tenfold and more in a step
       {"--classes", "10", "--width", "8", "--image-size", "64", "--warmup-epochs", "0"},
       true},
      {"artists-resnet", "artists", 0.0004, {"--width", "8", "--image-size", "64"}, true},
      {"alexnet-owt",
       "imagenet",
       0.01,
       {"--classes", "10", "--width", "8", "--image-size", "64"},
       false},
  };
  const std::uint64_t seed = soak_seed("alike");
  for (const AlikeCase& one : cases) {
    if (!takes_case(static_cast<std::size_t>(&one - cases.data()), seed, one.model)) continue;
    const TempFolder folder;
    const RunResult made = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), one.data,
                                         folder.path(), "--train", "300", "--test", "40"}});
    INFO(one.model << ": " << made.err);
    REQUIRE(made.exit_code == 0);
    const auto alone = losses_of(one, folder.path(), 1, true);
    const auto together = losses_of(one, folder.path(), 4, true);
    const double difference = largest_difference(alone, together);
    std::printf("%s: within %.1g\n", one.model.c_str(), difference);
    CHECK(difference < kAlikeTolerance);
    // Each rank by its own four samples: were that within tolerance, the check would prove nothing.
    if (one.normalises)
      CHECK(largest_difference(alone, losses_of(one, folder.path(), 4, false)) >
            1000 * kAlikeTolerance);
  }
}

}  // namespace hvdrun::test
