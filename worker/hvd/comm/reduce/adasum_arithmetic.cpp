// Compiled with -O3 and without contraction to fused multiply-add, as the loops of
// reduce_buffers().
#include "worker/hvd/comm/reduce/adasum_arithmetic.h"

#include <limits>

namespace hvdrun {
namespace {

// Sums side by side: one chain of additions would wait for the adder each time, and the compiler
// must not reorder them itself.
constexpr std::size_t kLanes = 8;

template <class T>
DotProducts products(const T* a, const T* b, std::size_t count) {
  double both[kLanes] = {};
  double first[kLanes] = {};
  double second[kLanes] = {};
  const auto add = [&](std::size_t lane, std::size_t at) {
    const double x = a[at];
    const double y = b[at];
    both[lane] += x * y;
    first[lane] += x * x;
    second[lane] += y * y;
  };
  std::size_t at = 0;
  for (; at + kLanes <= count; at += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, at + lane);
  for (std::size_t lane = 0; at < count; ++lane, ++at) add(lane, at);
  DotProducts sums;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sums.both += both[lane];
    sums.first += first[lane];
    sums.second += second[lane];
  }
  return sums;
}

// Below the smallest normal number a squared norm has lost its digits, and the quotient would be
// anything. Of float32 even the smallest element's square is far above.
double coefficient(double both, double squared_norm) {
  return squared_norm < std::numeric_limits<double>::min() ? 1 : 1 - both / squared_norm / 2;
}

template <class T>
void add(T* a, const T* b, std::size_t count, const DotProducts& dots) {
  const double of_a = coefficient(dots.both, dots.first);
  const double of_b = coefficient(dots.both, dots.second);
  for (std::size_t i = 0; i < count; ++i)
    a[i] = static_cast<T>(of_a * static_cast<double>(a[i]) + of_b * static_cast<double>(b[i]));
}

}  // namespace

DotProducts dot_products(const float* a, const float* b, std::size_t count) {
  return products(a, b, count);
}
DotProducts dot_products(const double* a, const double* b, std::size_t count) {
  return products(a, b, count);
}
void add_adaptively(float* a, const float* b, std::size_t count, const DotProducts& dots) {
  add(a, b, count, dots);
}
void add_adaptively(double* a, const double* b, std::size_t count, const DotProducts& dots) {
  add(a, b, count, dots);
}

}  // namespace hvdrun
