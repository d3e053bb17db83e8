// The lead of another host's monotonic clock over this one's, from questions and answers. An answer
// was given at some moment between the two. So half the time of the round trip is the most that the
// estimate can be wrong. Sans-I/O; nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hvdrun {

// steady_clock's, which is CLOCK_MONOTONIC.
std::uint64_t monotonic_ns();

// The name of the CLOCK_MONOTONIC that this process has: the boot of the kernel and the time name
// space. Empty when /proc does not tell.
std::string own_clock();

class ClockOffset {
 public:
  // Asked at `sent`, answered with `remote`, received at `received`.
  void add(std::uint64_t sent, std::uint64_t remote, std::uint64_t received);
  std::size_t samples() const { return count_; }
  // Modulo 2^64: what to add to this host's time to get the other's. That of the best of the last
  // samples: clocks drift apart, so an old one must have been better to be the best still. 0
  // without any.
  std::uint64_t to_remote(std::uint64_t now) const;

 private:
  struct Sample {
    std::uint64_t add = 0;
    std::uint64_t round_trip = 0;
    std::uint64_t received = 0;
  };
  std::array<Sample, 16> samples_{};
  std::size_t count_ = 0;  // all there ever were
};

}  // namespace hvdrun
