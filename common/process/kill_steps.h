// The kill ladder as data: a signal, how long to wait, the next signal. What is left after the last
// step gets SIGKILL, whatever the user wrote.
#pragma once

#include <cstdint>
#include <vector>

namespace hvdrun {

struct KillStep {
  std::uint32_t signal = 0;
  std::uint32_t wait_ms = 0;  // before the next step
  template <class V>
  void visit(V& v) {
    v(signal);
    v(wait_ms);
  }
};

using KillSteps = std::vector<KillStep>;

inline std::uint64_t total_wait_ms(const KillSteps& steps) {
  std::uint64_t sum = 0;
  for (const KillStep& step : steps) sum += step.wait_ms;
  return sum;
}

}  // namespace hvdrun
