#include "tests/unit/worker/hvd/comm/disturbance.h"

#include <atomic>
#include <random>
#include <sched.h>
#include <unistd.h>

#include "worker/hvd/comm/shm/test_points.h"

namespace hvdrun {
namespace {

// 0: nobody is disturbed. Relaxed everywhere: a test point must not put threads in an order.
std::atomic<std::uint64_t> disturbance_seed{0};
std::atomic<std::uint64_t> disturbed_threads{0};
std::atomic<unsigned> left_out{0};

}  // namespace

void at_sync_point() {
  const std::uint64_t seed = disturbance_seed.load(std::memory_order_relaxed);
  if (seed == 0) return;
  thread_local std::minstd_rand random(static_cast<unsigned>(
      seed + disturbed_threads.fetch_add(0x9e3779b9U, std::memory_order_relaxed)));
  const auto choice = random() % 256;
  if (choice == 0) ::usleep(static_cast<useconds_t>(random() % 200));
  if (choice < 32) ::sched_yield();
}

bool leaves_out_wait() {
  const unsigned every = left_out.load(std::memory_order_relaxed);
  if (every == 0) return false;
  thread_local unsigned waits = 0;
  return ++waits % every == 0;
}

namespace test {

Disturbance::Disturbance(std::uint64_t seed) {
  disturbance_seed.store(seed | 1, std::memory_order_relaxed);
}
Disturbance::~Disturbance() { disturbance_seed.store(0, std::memory_order_relaxed); }

void leave_out_waits(unsigned every) { left_out.store(every, std::memory_order_relaxed); }

}  // namespace test
}  // namespace hvdrun
