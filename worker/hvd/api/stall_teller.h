// Says when the launcher is told that operations wait: after the warning time, after each further
// one, and once after the shutdown time. Sans-I/O; not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <numeric>

namespace hvdrun {

class StallTeller {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // 0: never.
  StallTeller(Milliseconds warning, Milliseconds shutdown)
      : warning_(warning), shutdown_(shutdown) {}

  // Somebody has to look so often; 0: never.
  Milliseconds interval() const {
    if (warning_.count() == 0 || shutdown_.count() == 0) return warning_ + shutdown_;
    return Milliseconds(std::gcd(warning_.count(), shutdown_.count()));
  }

  // The oldest operation has waited for `age`. Whether it is time.
  bool is_time(Milliseconds age) {
    // Another operation, or none that waits.
    if (age < last_age_) {
      warnings_ = 0;
      shutdown_told_ = false;
    }
    last_age_ = age;
    bool is = false;
    if (warning_.count() > 0 && age / warning_ > warnings_) {
      warnings_ = age / warning_;
      is = true;
    }
    if (shutdown_.count() > 0 && age >= shutdown_ && !shutdown_told_) {
      shutdown_told_ = true;
      is = true;
    }
    return is;
  }

 private:
  const Milliseconds warning_;
  const Milliseconds shutdown_;
  Milliseconds last_age_{0};
  std::int64_t warnings_ = 0;
  bool shutdown_told_ = false;
};

}  // namespace hvdrun
