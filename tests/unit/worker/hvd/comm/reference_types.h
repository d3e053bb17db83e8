// Elements of every type for tests: values to begin with, and arithmetic that is plain rather than
// fast, written apart from the library's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hvd/hvd.h>

namespace hvdrun::test {

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

// -126 to 127; a call of ldexp() for each of millions of elements takes long.
inline float power_of_two(int exponent) {
  const auto bits = static_cast<std::uint32_t>(exponent + 127) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float float_of(hvd::Float16 half) {
  const int exponent = half.bits >> 10 & 31;
  const int mantissa = half.bits & 1023;
  const float sign = (half.bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31)
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  return sign * static_cast<float>(mantissa + (exponent > 0 ? 1024 : 0)) *
         power_of_two(std::max(exponent, 1) - 25);
}

// To the nearest, of two to the even one. NaN has one pattern here.
inline hvd::Float16 half_of(float value) {
  if (std::isnan(value)) return {0x7e00};
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (size >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  const int exponent = size < 0x1p-14F ? -14 : std::ilogb(size);
  const auto steps = static_cast<int>(std::nearbyint(size * power_of_two(10 - exponent)));
  // A step too many carries into the exponent, as it should.
  const int bits = size < 0x1p-14F ? steps : ((exponent + 15) << 10) + steps - 1024;
  return {static_cast<std::uint16_t>(sign | bits)};
}

inline float float_of(hvd::BFloat16 brain) {
  const std::uint32_t bits = static_cast<std::uint32_t>(brain.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline hvd::BFloat16 brain_of(float value) {
  if (std::isnan(value)) return {0x7fc0};
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t rest = bits & 0xffff;
  bits >>= 16;
  if (rest > 0x8000 || (rest == 0x8000 && bits % 2 == 1)) ++bits;
  return {static_cast<std::uint16_t>(bits)};
}

// Calls `use` with a value of the element's C++ type.
template <class Use>
auto with_type(hvd::DataType type, Use use) {
  switch (type) {
    case hvd::DataType::uint8:
      return use(std::uint8_t{});
    case hvd::DataType::int8:
      return use(std::int8_t{});
    case hvd::DataType::uint16:
      return use(std::uint16_t{});
    case hvd::DataType::int16:
      return use(std::int16_t{});
    case hvd::DataType::int32:
      return use(std::int32_t{});
    case hvd::DataType::int64:
      return use(std::int64_t{});
    case hvd::DataType::float16:
      return use(hvd::Float16{});
    case hvd::DataType::bfloat16:
      return use(hvd::BFloat16{});
    case hvd::DataType::float32:
      return use(float{});
    case hvd::DataType::float64:
      return use(double{});
    case hvd::DataType::boolean:
      break;
  }
  return use(bool{});
}

template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, hvd::Float16> || std::is_same_v<T, hvd::BFloat16>;

// The type that a reduction computes with: float for the 16-bit floats.
template <class T>
using Wide = std::conditional_t<kIsSmallFloat<T>, float, T>;

template <class T>
Wide<T> widen(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return float_of(value);
  } else {
    return value;
  }
}

template <class T>
T narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, hvd::Float16>) {
    return half_of(value);
  } else if constexpr (std::is_same_v<T, hvd::BFloat16>) {
    return brain_of(value);
  } else {
    return value;
  }
}

// The same everywhere, other for each round, rank and index. Floats have an integer part, so that
// min, max and products of some of them stay finite.
template <class T>
T value_of(std::uint64_t round, std::size_t rank, std::size_t index) {
  const std::uint64_t bits = mix(round * 0x9e3779b97f4a7c15U + rank * 1000003 + index);
  if constexpr (std::is_same_v<T, bool>) {
    return bits % 3 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(bits % 2000003) - 1000001);
  } else {
    using W = Wide<T>;
    return narrow<T>(static_cast<W>(static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) *
                     static_cast<W>(1 + bits % (kIsSmallFloat<T> ? 20 : 1000)));
  }
}

template <class T>
T scaled(T value, double factor) {
  if (factor == 1) return value;
  if constexpr (std::is_same_v<T, bool>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    const double result = std::trunc(static_cast<double>(value) * factor);
    if (result >= std::ldexp(1.0, std::numeric_limits<T>::digits))
      return std::numeric_limits<T>::max();
    if (result <= static_cast<double>(std::numeric_limits<T>::min()))
      return std::numeric_limits<T>::min();
    return static_cast<T>(result);
  } else {
    return value * static_cast<T>(factor);
  }
}

// The choice of two numbers; a NaN is the result where there is one, -0 is less than 0.
template <class T>
T extreme_of(T a, T b, bool largest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == 0 && b == 0) return std::signbit(a) == largest ? b : a;
  }
  return (largest ? a < b : b < a) ? b : a;
}

// b after a, in T's own arithmetic; integers wrap.
template <class T>
T combined(T a, T b, hvd::ReduceOp op) {
  if (op == hvd::ReduceOp::min || op == hvd::ReduceOp::max)
    return extreme_of(a, b, op == hvd::ReduceOp::max);
  const bool product = op == hvd::ReduceOp::product;
  if constexpr (std::is_same_v<T, bool>) {
    return product ? a && b : a || b;
  } else if constexpr (std::is_integral_v<T>) {
    // Only the low bits count, so a sign may be lost.
    const std::uint64_t x = static_cast<std::make_unsigned_t<T>>(a);
    const std::uint64_t y = static_cast<std::make_unsigned_t<T>>(b);
    return static_cast<T>(product ? x * y : x + y);
  } else {
    return product ? a * b : a + b;
  }
}

// Element `index` of a reduction over all ranks' value_of().
template <class T>
T reduced(std::uint64_t round, std::size_t ranks, std::size_t index, hvd::ReduceOp op,
          double prescale, double postscale) {
  using W = Wide<T>;
  const auto input = [&](std::size_t rank) {
    return scaled<W>(widen(value_of<T>(round, rank, index)), prescale);
  };
  if constexpr (std::is_integral_v<T> && sizeof(T) < 8 && !std::is_same_v<T, bool>) {
    if (op == hvd::ReduceOp::average) {
      std::int64_t sum = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) sum += input(rank);
      return scaled<T>(static_cast<T>(sum / static_cast<std::int64_t>(ranks)), postscale);
    }
  }
  W result = input(0);
  for (std::size_t rank = 1; rank < ranks; ++rank) result = combined<W>(result, input(rank), op);
  if (op == hvd::ReduceOp::average) result = static_cast<W>(result / static_cast<W>(ranks));
  return narrow<T>(scaled<W>(result, postscale));
}

}  // namespace hvdrun::test
