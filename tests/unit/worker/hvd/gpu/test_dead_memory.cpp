// Memory of a GPU that dead processes have left behind.
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/gpu/dead_memory.h"

using namespace hvdrun;
using namespace hvdrun::test;

TEST_CASE("memory of the dead is waited for", "[gpu][dead]") {
  const FakeRanks ranks(3);
  // The second is a part of a divided GPU.
  const GpuDevice& device = *ranks.devices[static_cast<std::size_t>(GENERATE(0, 1))];
  const auto wait = [&](std::chrono::milliseconds patience) {
    return await_dead_memory(device, patience, fake_file());
  };
  SECTION("there is none") { CHECK(wait(0s) == DeadMemory::none); }
  SECTION("it goes") {
    fake().nvml_lists_dead = 3;
    CHECK(wait(20s) == DeadMemory::none);
    CHECK(fake().nvml_lists_dead == 0);
  }
  SECTION("it stays") {
    fake().nvml_lists_dead = 1'000'000;
    CHECK(wait(120ms) == DeadMemory::some);
  }
  SECTION("the list has other numbers than this process knows") {
    fake().nvml_lists_me = false;
    fake().nvml_lists_dead = 1'000'000;
    CHECK(wait(20s) == DeadMemory::unknown);
  }
  SECTION("NVML does not tell") {
    fake().nvml_result = 3;
    CHECK(wait(20s) == DeadMemory::unknown);
  }
}

TEST_CASE("without NVML nothing is waited for", "[gpu][dead]") {
  const FakeRanks ranks(3);
  CHECK(await_dead_memory(*ranks.devices[0], 20s, "/no/such/library") == DeadMemory::unknown);
  CHECK(await_dead_memory(*ranks.devices[0], 20s, "libc.so.6") == DeadMemory::unknown);
  CHECK(await_dead_memory(*ranks.devices[2], 20s, fake_file()) == DeadMemory::unknown);
}
