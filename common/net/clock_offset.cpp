#include "common/net/clock_offset.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace hvdrun {
namespace {

// 50 parts per million: what an undisciplined quartz may be wrong.
constexpr std::uint64_t kDriftPart = 20'000;

}  // namespace

std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

std::string own_clock() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  if (boot.empty()) return boot;
  // Kernels without time name spaces have one clock.
  std::error_code ignored;
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/time", ignored).string();
}

void ClockOffset::add(std::uint64_t sent, std::uint64_t remote, std::uint64_t received) {
  const std::uint64_t round_trip = received - std::min(sent, received);
  samples_[count_++ % samples_.size()] = {remote - (sent + round_trip / 2), round_trip, received};
}

std::uint64_t ClockOffset::to_remote(std::uint64_t now) const {
  std::uint64_t best = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t add = 0;
  for (std::size_t i = 0; i < std::min(count_, samples_.size()); ++i) {
    const Sample& sample = samples_[i];
    const std::uint64_t age = now - std::min(sample.received, now);
    const std::uint64_t error = sample.round_trip / 2 + age / kDriftPart;
    if (error >= best) continue;
    best = error;
    add = sample.add;
  }
  return add;
}

}  // namespace hvdrun
