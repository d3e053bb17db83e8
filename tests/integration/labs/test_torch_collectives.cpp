// <hvd/torch.h> on real ranks; what is asked stands in the files of torch_probes.h.
#include <cstdio>
#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("tensors, optimizers and their states do on ranks what they promise", "[torch]") {
  for (const char* const ranks : {"1", "2", "3"}) {
    const TempFolder folder;
    const RunResult result =
        hvdrun({"-np", ranks, build_path("tests/integration/programs/torch_probe"), "tensors",
                folder.path()},
               {.limit = 120s});
    std::printf("np %s:\n%s", ranks, result.out.c_str());
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("calls that do not fit together, or make no sense, are told on all ranks", "[torch]") {
  for (const char* const ranks : {"2", "3", "4"}) {
    const RunResult result =
        hvdrun({"-np", ranks, build_path("tests/integration/programs/torch_probe"), "mismatch"},
               {.limit = 120s});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("names, process sets, adasum, clipping and uneven batches on ranks", "[torch]") {
  for (const char* const ranks : {"1", "2", "3", "4"}) {
    const RunResult result =
        hvdrun({"-np", ranks, build_path("tests/integration/programs/torch_probe"), "options"},
               {.limit = 120s});
    std::printf("np %s:\n%s", ranks, result.out.c_str());
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("options of the optimizer together compute what one process would", "[torch]") {
  for (const char* const ranks : {"1", "2", "3", "4"}) {
    const RunResult result =
        hvdrun({"-np", ranks, build_path("tests/integration/programs/torch_probe"), "combination"},
               {.limit = 120s});
    std::printf("np %s:\n%s", ranks, result.out.c_str());
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("halves of a job share states, metrics and batches in process sets", "[torch]") {
  for (const char* const ranks : {"2", "3", "4"}) {
    const TempFolder folder;
    const RunResult result = hvdrun(
        {"-np", ranks, build_path("tests/integration/programs/torch_probe"), "set", folder.path()},
        {.limit = 60s});
    INFO("np " << ranks << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("rows with handles, submitted and waited for in any order", "[torch]") {
  for (const char* const ranks : {"1", "2", "3"}) {
    const std::string seed = std::to_string(std::random_device()() % 100000);
    const RunResult result = hvdrun(
        {"-np", ranks, build_path("tests/integration/programs/torch_probe"), "async", seed, "8"},
        {.limit = 60s});
    std::printf("np %s:\n%s", ranks, result.out.c_str());
    INFO("seed " << seed << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("gradients go back through collectives", "[torch]") {
  for (const char* const ranks : {"1", "2", "3"}) {
    const RunResult result =
        hvdrun({"-np", ranks, build_path("tests/integration/programs/torch_probe"), "gradient"},
               {.limit = 60s});
    INFO("np " << ranks << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("what programs do seldom works too", "[torch]") {
  for (const char* const ranks : {"1", "2", "3"}) {
    const RunResult result =
        hvdrun({"-np", ranks, build_path("tests/integration/programs/torch_probe"), "edge"},
               {.limit = 60s});
    INFO("np " << ranks << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("a training goes on after errors, to the bits of one without", "[torch]") {
  for (const char* const ranks : {"1", "2", "3", "4"}) {
    RunOptions options{.limit = 60s};
    options.env.emplace_back("OMP_NUM_THREADS", "1");
    const RunResult result = hvdrun(
        {"-np", ranks, build_path("tests/integration/programs/torch_probe"), "elastic"}, options);
    INFO("np " << ranks << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("the timeline has backward, the wait for gradients and the steps", "[torch]") {
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  const RunResult result = hvdrun({"-np", "2", "--timeline-filename", file, build_path("train"),
                                   "--synthetic", "--max-steps", "5", "--device", "cpu"},
                                  {.limit = 60s});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const RunResult read =
      run({.args = {"/usr/bin/python3", source_path("tests/integration/programs/check_timeline.py"),
                    file}});
  INFO(read.out << read.err);
  CHECK(read.exit_code == 0);
  for (const char* const line : {"BACKWARD 5", "SYNCHRONIZE 5", "STEP 5"})
    for (const char* const rank : {"0", "1"})
      CHECK_THAT(read.out, Catch::Contains(rank + std::string(" DistributedOptimizer.0 ") + line));
  CHECK_THAT(read.out, Catch::Contains("1 train DATA ") && Catch::Contains("1 train FORWARD "));
}

// scripts/gpu-check runs it by itself, on a GPU.
TEST_CASE("the check of LibTorch on a GPU holds on the CPU", "[torch]") {
  if (!takes_turn(3)) return;
  const std::string check = build_path("tests/gpu/torch_check");
  for (const char* const ranks : {"1", "2", "4"}) {
    RunOptions options{.limit = 120s};
    options.env.emplace_back("OMP_NUM_THREADS", "1");
    const RunResult result = hvdrun({"-np", ranks, check, "--cpu"}, options);
    std::printf("np %s:\n%s", ranks, result.out.c_str());
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, Catch::Contains("passed: LibTorch's tensors, optimizers and a net"));
    CHECK_THAT(result.out, Catch::Contains("left out: a step in a CUDA graph: "));
  }
  const RunResult nowhere = run({.args = {check}, .limit = 60s});
  INFO(nowhere.out << nowhere.err);
  if (nowhere.exit_code != 0) {  // it is 0 where there is a GPU
    CHECK(nowhere.exit_code == 77);
    CHECK_THAT(nowhere.out, Catch::StartsWith("no GPU: "));
  }
}

}  // namespace
}  // namespace hvdrun::test
