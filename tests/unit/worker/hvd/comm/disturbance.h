// Makes the ranks of this process fall behind at random synchronisation points (test_points.h).
#pragma once

#include <cstdint>

namespace hvdrun::test {

// While one lives, threads yield or sleep for up to 0.2 ms at some of the points.
class Disturbance {
 public:
  explicit Disturbance(std::uint64_t seed);
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;
};

// From now on every rank leaves out one wait in `every`, 0: none.
void leave_out_waits(unsigned every);

}  // namespace hvdrun::test
