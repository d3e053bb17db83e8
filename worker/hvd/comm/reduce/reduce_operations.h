// The combination of two elements by reduce_buffers(). Part of reduce_loops.h, whose rule holds
// here, too: nothing calls an inline function of another header.
#include <cstddef>
#include <cstdint>

namespace hvdrun::HVD_REDUCE_VARIANT {
namespace {

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline double float_of(std::uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class A>
A least(A a, A b) {
  return b < a ? b : a;
}
template <class A>
A most(A a, A b) {
  return a < b ? b : a;
}

// Among floating-point numbers -0 is less than 0, and with a NaN the result is one. The two
// comparisons choose the same number, but of a NaN and a number, or of two zeros, one chooses a and
// the other b. Then OR of both is a NaN, whose exponent has all bits and whose fraction some, or
// -0. The greatest is the same with the sign turned. The order of a and b does not matter, no bit
// depends on the compiler's, and each comparison is one instruction of a vector.
template <class A, class Bits>
A least_float(A a, A b) {
  const Bits one = bits_of(b < a ? b : a);
  const Bits other = bits_of(a < b ? a : b);
  return float_of(one | other);
}
template <class A, class Bits>
A most_float(A a, A b) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const Bits one = bits_of(a < b ? b : a);
  const Bits other = bits_of(b < a ? a : b);
  return float_of(((one ^ kSign) | (other ^ kSign)) ^ kSign);
}
inline float least(float a, float b) { return least_float<float, std::uint32_t>(a, b); }
inline double least(double a, double b) { return least_float<double, std::uint64_t>(a, b); }
inline float most(float a, float b) { return most_float<float, std::uint32_t>(a, b); }
inline double most(double a, double b) { return most_float<double, std::uint64_t>(a, b); }

struct Sum {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a + b);
  }
};
struct Product {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a * b);
  }
};
struct Min {
  template <class A>
  static A combine(A a, A b) {
    return least(a, b);
  }
};
struct Max {
  template <class A>
  static A combine(A a, A b) {
    return most(a, b);
  }
};
struct Or {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a | b);
  }
};
struct And {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a & b);
  }
};

}  // namespace
}  // namespace hvdrun::HVD_REDUCE_VARIANT
