// Samples a second: of the last steps, and of an epoch. First steps of another kind are left out (a
// GPU's, in which libraries are loaded and cuDNN searches).
#pragma once

#include <chrono>
#include <cstddef>

namespace hvdrun {

class Throughput {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void begin_epoch(Time now);
  // `done` steps of the epoch have been made, the last of them with so many samples of all ranks.
  void step(std::size_t done, std::size_t samples, Time now);
  // The epoch's rate begins anew behind the last step.
  void leave_out_steps_so_far();

  // Since the call before, or the epoch's beginning.
  double take_interval();
  struct Epoch {
    double per_second = 0;
    std::size_t left_out = 0;  // steps
  };
  Epoch of_epoch(Time now) const { return {epoch_.rate(now), left_out_}; }

 private:
  struct Span {
    Time begin{};
    std::size_t samples = 0;
    double rate(Time end) const;
  };
  Span epoch_;
  Span interval_;
  std::size_t left_out_ = 0;
  std::size_t done_ = 0;
  Time last_{};
};

}  // namespace hvdrun
