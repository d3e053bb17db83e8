// Collectives between real processes, for long, and with processes that are killed.
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/killed_rank.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::string sequence_probe() { return build_path("tests/integration/programs/sequence_probe"); }

TEST_CASE("random operations of processes give the serial results", "[soak][collectives]") {
  if (!takes_turn(2)) return;
  const int np = GENERATE(2, 3, 4, 5, 6);
  const auto seed = soak_seed("random operations, np " + std::to_string(np));
  const std::size_t count = soak_count(is_sanitized() ? 1'000 : 10'000);
  const RunResult result = hvdrun(
      {"-np", std::to_string(np), sequence_probe(), std::to_string(count), std::to_string(seed)},
      {.limit = 300s});
  CAPTURE(np, seed, result.out, result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
}

// A memory cgroup of a test's own, of either version.
class MemoryCgroup {
 public:
  MemoryCgroup() {
    for (const auto& [parent, limit, peak] :
         {std::array{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
          std::array{"/sys/fs/cgroup", "memory.max", "memory.peak"}}) {
      folder_ = std::string(parent) + "/hvdrun-test-" + std::to_string(::getpid());
      limit_ = folder_ + "/" + limit;
      peak_ = folder_ + "/" + peak;
      std::error_code ignored;
      if (!fs::create_directory(folder_, ignored)) continue;
      if (fs::exists(limit_) && fs::exists(peak_)) return;
      fs::remove(folder_, ignored);
    }
    folder_.clear();
  }
  ~MemoryCgroup() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove(folder_, ignored);
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  bool exists() const { return !folder_.empty(); }
  // Runs `command` inside, with so many bytes at most (0: as it is).
  RunResult run_inside(std::size_t limit, const std::string& command) const {
    std::string script = "echo $$ > " + folder_ + "/cgroup.procs && exec " + command;
    if (limit > 0) script = "echo " + std::to_string(limit) + " > " + limit_ + " && " + script;
    return run({.args = {"sh", "-c", script}});
  }
  std::size_t peak() const {
    std::size_t bytes = 0;
    std::ifstream(peak_) >> bytes;
    return bytes;
  }

 private:
  std::string folder_;
  std::string limit_;
  std::string peak_;
};

TEST_CASE("collectives take no memory that grows with the buffers", "[collectives]") {
  if (is_sanitized()) {
    WARN("left out: a sanitizer's own memory grows with everything");
    return;
  }
  constexpr std::size_t kRanks = 4;
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto command = [](std::size_t bytes) {
    return build_path("hvdrun") + " -np 4 " + sequence_probe() + " memory " + std::to_string(bytes);
  };
  std::size_t small = 0;
  {
    const MemoryCgroup cgroup;
    if (!cgroup.exists()) {
      WARN("left out: no memory cgroup with a peak can be made");
      return;
    }
    // Several chunks, so that all of the communicator's memory is in use.
    CHECK(cgroup.run_inside(0, command(std::size_t{4} << 20)).exit_code == 0);
    small = cgroup.peak() - kRanks * (std::size_t{4} << 20);
  }
  // Page tables of the buffers, and what the kernel charges in batches.
  const std::size_t limit = small + kRanks * kBytes + (std::size_t{4} << 20);
  const MemoryCgroup cgroup;
  REQUIRE(cgroup.exists());
  const RunResult result = cgroup.run_inside(limit, command(kBytes));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  std::cout << "4 ranks: " << (small >> 10) << " KiB besides buffers of 4 MiB, "
            << ((cgroup.peak() - kRanks * kBytes) >> 10) << " KiB besides buffers of 64 MiB\n";
}

TEST_CASE("whoever is killed in a collective is named by all others", "[soak][collectives]") {
  check_killed_ranks("collectives", {sequence_probe(), "until-lost"});
}

}  // namespace
}  // namespace hvdrun::test
