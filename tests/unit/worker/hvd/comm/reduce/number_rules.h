// The table of <hvd/numbers.h> as cases: NaN, infinities, -0, subnormals, the ends of integers. One
// table for every path: each instruction set, one host, several hosts (test_numbers.cpp), GPUs
// (tests/gpu/conformance.cpp). Everything is compared as bits, a NaN with any NaN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun::test {

enum class Number : std::uint8_t {
  nan,
  infinity,
  minus_infinity,
  zero,
  minus_zero,
  one,
  minus_one,
  two,
  most,    // the largest finite one
  lowest,  // of floats: with the other sign
  tiny,    // the smallest above 0, which is subnormal
  minus_tiny,
  // Results only.
  same,  // as elsewhere
  any,
  positive,      // and finite: NCCL rounds in its own way
  wrapped_mean,  // of as many `first` as there are ranks, whose sum wraps
};

// The types that a rule is of; several may be true of one.
enum class NumberTypes : std::uint8_t {
  floats,
  float16,
  other_floats,
  integers,
  signed_integers,
  unsigned_integers,
  int64,
  other_integers,
  boolean,
};

// One rank has `first`, the next one `second`, all others `rest`; every rank is the first in its
// turn. A rank alone has `first`, and gets it, or `alone`.
struct NumberRule {
  NumberTypes types;
  hvd::ReduceOp op;
  Number first;
  Number second;
  Number rest;
  Number wanted;
  Number on_gpu = Number::same;  // by NCCL
  double prescale = 1;
  double postscale = 1;
  Number alone = Number::same;
};

inline const std::vector<NumberRule>& number_rules() {
  using N = Number;
  using T = NumberTypes;
  using Op = hvd::ReduceOp;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static const std::vector<NumberRule> rules{
      {T::floats, Op::min, N::nan, N::one, N::one, N::nan},
      {T::floats, Op::min, N::nan, N::infinity, N::infinity, N::nan},
      {T::floats, Op::min, N::nan, N::minus_infinity, N::minus_infinity, N::nan},
      {T::floats, Op::min, N::nan, N::zero, N::minus_zero, N::nan},
      {T::floats, Op::min, N::nan, N::nan, N::nan, N::nan},
      {T::floats, Op::min, N::minus_zero, N::zero, N::zero, N::minus_zero},
      {T::floats, Op::min, N::zero, N::minus_zero, N::minus_zero, N::minus_zero},
      {T::floats, Op::min, N::zero, N::zero, N::zero, N::zero},
      {T::floats, Op::min, N::infinity, N::one, N::one, N::one},
      {T::floats, Op::min, N::infinity, N::infinity, N::infinity, N::infinity},
      {T::floats, Op::min, N::minus_infinity, N::one, N::one, N::minus_infinity},
      {T::floats, Op::min, N::tiny, N::zero, N::zero, N::zero},
      {T::floats, Op::min, N::tiny, N::one, N::one, N::tiny},
      {T::floats, Op::min, N::minus_tiny, N::minus_zero, N::minus_zero, N::minus_tiny},
      {T::floats, Op::min, N::minus_tiny, N::minus_one, N::minus_one, N::minus_one},
      {T::floats, Op::min, N::most, N::infinity, N::infinity, N::most},
      {T::floats, Op::min, N::lowest, N::minus_infinity, N::one, N::minus_infinity},
      {T::floats, Op::min, N::lowest, N::one, N::one, N::lowest},

      {T::floats, Op::max, N::nan, N::one, N::one, N::nan},
      {T::floats, Op::max, N::nan, N::infinity, N::infinity, N::nan},
      {T::floats, Op::max, N::nan, N::minus_infinity, N::minus_infinity, N::nan},
      {T::floats, Op::max, N::nan, N::zero, N::minus_zero, N::nan},
      {T::floats, Op::max, N::nan, N::nan, N::nan, N::nan},
      {T::floats, Op::max, N::minus_zero, N::zero, N::zero, N::zero},
      {T::floats, Op::max, N::zero, N::minus_zero, N::minus_zero, N::zero},
      {T::floats, Op::max, N::minus_zero, N::minus_zero, N::minus_zero, N::minus_zero},
      {T::floats, Op::max, N::infinity, N::one, N::one, N::infinity},
      {T::floats, Op::max, N::minus_infinity, N::one, N::one, N::one},
      {T::floats, Op::max, N::minus_infinity, N::minus_infinity, N::minus_infinity,
       N::minus_infinity},
      {T::floats, Op::max, N::tiny, N::zero, N::zero, N::tiny},
      {T::floats, Op::max, N::tiny, N::one, N::one, N::one},
      {T::floats, Op::max, N::minus_tiny, N::minus_zero, N::minus_zero, N::minus_zero},
      {T::floats, Op::max, N::minus_tiny, N::minus_one, N::minus_one, N::minus_tiny},
      {T::floats, Op::max, N::lowest, N::minus_infinity, N::minus_infinity, N::lowest},
      {T::floats, Op::max, N::most, N::infinity, N::one, N::infinity},
      {T::floats, Op::max, N::most, N::one, N::one, N::most},

      {T::floats, Op::sum, N::nan, N::one, N::zero, N::nan},
      {T::floats, Op::sum, N::infinity, N::minus_infinity, N::zero, N::nan},
      {T::floats, Op::sum, N::infinity, N::lowest, N::zero, N::infinity},
      {T::floats, Op::sum, N::minus_infinity, N::one, N::zero, N::minus_infinity},
      {T::floats, Op::sum, N::minus_zero, N::minus_zero, N::minus_zero, N::minus_zero},
      {T::floats, Op::sum, N::zero, N::minus_zero, N::minus_zero, N::zero},
      {T::floats, Op::sum, N::one, N::minus_one, N::minus_zero, N::zero},
      {T::floats, Op::sum, N::tiny, N::zero, N::minus_zero, N::tiny},
      {T::floats, Op::sum, N::tiny, N::minus_tiny, N::zero, N::zero},
      {T::floats, Op::sum, N::most, N::most, N::zero, N::infinity},
      {T::floats, Op::sum, N::lowest, N::lowest, N::zero, N::minus_infinity},

      {T::floats, Op::average, N::nan, N::one, N::zero, N::nan},
      {T::floats, Op::average, N::infinity, N::one, N::one, N::infinity},
      {T::floats, Op::average, N::infinity, N::minus_infinity, N::zero, N::nan},
      {T::floats, Op::average, N::minus_zero, N::minus_zero, N::minus_zero, N::minus_zero},
      {T::floats, Op::average, N::zero, N::minus_zero, N::minus_zero, N::zero},
      {T::floats, Op::average, N::one, N::one, N::one, N::one, N::positive},
      {T::floats, Op::average, N::tiny, N::tiny, N::tiny, N::tiny, N::zero},
      // NCCL's shares are rounded, and so is each sum of them: it is the largest one, or infinite.
      {T::float16, Op::average, N::most, N::most, N::most, N::most, N::any},
      {T::other_floats, Op::average, N::most, N::most, N::most, N::infinity, N::any},

      {T::floats, Op::product, N::nan, N::one, N::one, N::nan},
      {T::floats, Op::product, N::nan, N::zero, N::one, N::nan},
      {T::floats, Op::product, N::infinity, N::zero, N::one, N::nan},
      {T::floats, Op::product, N::infinity, N::minus_one, N::one, N::minus_infinity},
      {T::floats, Op::product, N::minus_zero, N::one, N::one, N::minus_zero},
      {T::floats, Op::product, N::minus_zero, N::minus_one, N::one, N::zero},
      {T::floats, Op::product, N::tiny, N::one, N::one, N::tiny},
      {T::floats, Op::product, N::tiny, N::tiny, N::one, N::zero},
      {T::floats, Op::product, N::most, N::two, N::one, N::infinity},

      {T::floats, Op::sum, N::one, N::zero, N::zero, N::nan, N::same, kInf, 1, N::infinity},
      {T::floats, Op::sum, N::one, N::one, N::one, N::infinity, N::same, kInf, 1, N::infinity},
      {T::floats, Op::max, N::one, N::one, N::one, N::infinity, N::same, kInf, 1, N::infinity},
      {T::floats, Op::max, N::zero, N::one, N::one, N::nan, N::same, kInf, 1, N::nan},
      {T::floats, Op::min, N::zero, N::minus_one, N::minus_one, N::nan, N::same, kInf, 1, N::nan},
      {T::floats, Op::sum, N::infinity, N::one, N::one, N::nan, N::same, 1, 0, N::nan},
      {T::floats, Op::sum, N::minus_one, N::zero, N::zero, N::minus_zero, N::same, 1, 0,
       N::minus_zero},
      {T::floats, Op::max, N::nan, N::one, N::one, N::nan, N::same, -1, 1, N::nan},
      {T::floats, Op::max, N::one, N::zero, N::zero, N::minus_zero, N::same, -1, 1, N::minus_one},
      {T::floats, Op::min, N::nan, N::one, N::one, N::nan, N::same, 2, 0.5, N::nan},
      {T::floats, Op::min, N::one, N::one, N::one, N::one, N::same, 2, 0.5, N::one},
      {T::floats, Op::sum, N::tiny, N::zero, N::zero, N::zero, N::same, 0.5, 1, N::zero},
      {T::floats, Op::max, N::tiny, N::zero, N::zero, N::zero, N::same, 1, 0.5, N::zero},
      // Between the factors a float16 is a float32. NCCL's own multiplication is in float16, which
      // holds neither of these factors: our kernel does it.
      {T::float16, Op::sum, N::most, N::zero, N::zero, N::most, N::positive, 0x1p-27, 0x1p27,
       N::most},
      {T::float16, Op::max, N::most, N::zero, N::zero, N::most, N::same, 0x1p20, 0x1p-20, N::most},
      {T::float16, Op::sum, N::tiny, N::zero, N::zero, N::positive, N::same, 0x1p20, 1,
       N::positive},
      {T::other_floats, Op::max, N::most, N::zero, N::zero, N::infinity, N::same, 2, 0.5,
       N::infinity},

      {T::integers, Op::min, N::most, N::lowest, N::zero, N::lowest},
      {T::integers, Op::max, N::most, N::lowest, N::zero, N::most},
      {T::signed_integers, Op::min, N::minus_one, N::zero, N::zero, N::minus_one},
      {T::signed_integers, Op::max, N::minus_one, N::zero, N::zero, N::zero},
      {T::unsigned_integers, Op::min, N::most, N::one, N::one, N::one},
      {T::unsigned_integers, Op::max, N::most, N::one, N::one, N::most},
      {T::integers, Op::sum, N::most, N::one, N::zero, N::lowest},
      {T::signed_integers, Op::sum, N::lowest, N::minus_one, N::zero, N::most},
      {T::integers, Op::product, N::most, N::most, N::one, N::one},
      {T::integers, Op::product, N::lowest, N::two, N::one, N::zero},
      {T::signed_integers, Op::product, N::lowest, N::minus_one, N::one, N::lowest},
      {T::integers, Op::average, N::one, N::zero, N::zero, N::zero},
      {T::signed_integers, Op::average, N::minus_one, N::zero, N::zero, N::zero},
      {T::other_integers, Op::average, N::most, N::most, N::most, N::most, N::wrapped_mean},
      {T::other_integers, Op::average, N::lowest, N::lowest, N::lowest, N::lowest, N::wrapped_mean},
      {T::int64, Op::average, N::most, N::most, N::most, N::wrapped_mean},
      {T::int64, Op::average, N::lowest, N::lowest, N::lowest, N::wrapped_mean},
      {T::integers, Op::max, N::most, N::one, N::one, N::most, N::same, 2, 1, N::most},
      {T::integers, Op::min, N::lowest, N::zero, N::zero, N::lowest, N::same, 2, 1, N::lowest},
      {T::integers, Op::max, N::zero, N::zero, N::zero, N::zero, N::same, kInf, 1, N::zero},
      {T::integers, Op::max, N::one, N::zero, N::zero, N::most, N::same, kInf, 1, N::most},
      {T::signed_integers, Op::sum, N::minus_one, N::zero, N::zero, N::zero, N::same, 0.5, 1,
       N::zero},
      {T::signed_integers, Op::sum, N::minus_one, N::zero, N::zero, N::zero, N::same, 1, 0.5,
       N::zero},
      {T::integers, Op::sum, N::most, N::zero, N::zero, N::most, N::same, 1, 2, N::most},

      {T::boolean, Op::sum, N::two, N::zero, N::zero, N::one, N::same, 1, 1, N::one},
      {T::boolean, Op::max, N::two, N::one, N::zero, N::one, N::same, 1, 1, N::one},
      {T::boolean, Op::min, N::two, N::one, N::two, N::one, N::same, 1, 1, N::one},
      {T::boolean, Op::min, N::zero, N::one, N::two, N::zero},
      {T::boolean, Op::product, N::two, N::two, N::two, N::one, N::same, 1, 1, N::one},
      {T::boolean, Op::product, N::two, N::zero, N::one, N::zero, N::same, 1, 1, N::one},
  };
  return rules;
}

inline bool is_float(hvd::DataType type) {
  return type == hvd::DataType::float16 || type == hvd::DataType::bfloat16 ||
         type == hvd::DataType::float32 || type == hvd::DataType::float64;
}

inline bool is_of(hvd::DataType type, NumberTypes types) {
  const bool floats = is_float(type);
  const bool integers = !floats && type != hvd::DataType::boolean;
  const bool without_sign = type == hvd::DataType::uint8 || type == hvd::DataType::uint16;
  switch (types) {
    case NumberTypes::floats:
      return floats;
    case NumberTypes::float16:
      return type == hvd::DataType::float16;
    case NumberTypes::other_floats:
      return floats && type != hvd::DataType::float16;
    case NumberTypes::integers:
      return integers;
    case NumberTypes::signed_integers:
      return integers && !without_sign;
    case NumberTypes::unsigned_integers:
      return without_sign;
    case NumberTypes::int64:
      return type == hvd::DataType::int64;
    case NumberTypes::other_integers:
      return integers && type != hvd::DataType::int64;
    case NumberTypes::boolean:
      return type == hvd::DataType::boolean;
  }
  return false;
}

// The bits of a floating-point type.
struct FloatBits {
  std::uint64_t infinity;
  std::uint64_t one;
  std::uint64_t sign;
};
inline FloatBits float_bits(hvd::DataType type) {
  switch (type) {
    case hvd::DataType::float16:
      return {0x7c00, 0x3c00, 0x8000};
    case hvd::DataType::bfloat16:
      return {0x7f80, 0x3f80, 0x8000};
    case hvd::DataType::float32:
      return {0x7f800000, 0x3f800000, 0x80000000};
    default:
      return {0x7ff0000000000000, 0x3ff0000000000000, 0x8000000000000000};
  }
}

inline bool is_nan(std::uint64_t bits, hvd::DataType type) {
  const FloatBits of = float_bits(type);
  return (bits & (of.sign - 1)) > of.infinity;
}

inline std::uint64_t bits_of(Number number, hvd::DataType type) {
  const std::size_t width = element_size(type) * 8;
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - width);
  const bool without_sign = !is_of(type, NumberTypes::signed_integers);
  const FloatBits of = float_bits(type);
  const bool floats = is_float(type);
  switch (number) {
    case Number::nan:
      return of.infinity | 1;  // a signaling one, with the fewest bits
    case Number::infinity:
      return of.infinity;
    case Number::minus_infinity:
      return of.infinity | of.sign;
    case Number::zero:
      return 0;
    case Number::minus_zero:
      return of.sign;
    case Number::one:
      return floats ? of.one : 1;
    case Number::minus_one:
      return floats ? of.one | of.sign : all;
    case Number::two:
      // The exponent is one larger: the lowest bit of its field.
      return floats ? of.one + (of.infinity & ~(of.infinity << 1)) : 2;
    case Number::most:
      return floats ? of.infinity - 1 : without_sign ? all : all >> 1;
    case Number::lowest:
      return floats ? (of.infinity - 1) | of.sign : without_sign ? 0 : all ^ all >> 1;
    case Number::tiny:
      return 1;
    case Number::minus_tiny:
      return of.sign | 1;
    case Number::same:
    case Number::any:
    case Number::positive:
    case Number::wrapped_mean:
      break;
  }
  return 0;
}

// In the type's own width: the sum of `ranks` such numbers, truncated after the division.
inline std::uint64_t wrapped_mean(std::uint64_t bits, std::uint64_t ranks, hvd::DataType type) {
  const std::size_t unused = 64 - element_size(type) * 8;
  const std::uint64_t sum = bits * ranks << unused >> unused;
  if (!is_of(type, NumberTypes::signed_integers)) return sum / ranks;
  const auto whole = static_cast<std::int64_t>(sum << unused) >> unused;
  const std::int64_t mean = whole / static_cast<std::int64_t>(ranks);
  return static_cast<std::uint64_t>(mean) << unused >> unused;
}

// The rules that one operation shows: element i follows rules[i % rules.size()].
struct NumberCase {
  Reduction reduction;
  std::vector<NumberRule> rules;
};

inline std::vector<NumberCase> number_cases() {
  std::vector<NumberCase> cases;
  for (const hvd::DataType type :
       {hvd::DataType::int32, hvd::DataType::int64, hvd::DataType::float32, hvd::DataType::float64,
        hvd::DataType::uint8, hvd::DataType::int8, hvd::DataType::uint16, hvd::DataType::int16,
        hvd::DataType::float16, hvd::DataType::bfloat16, hvd::DataType::boolean})
    for (const NumberRule& rule : number_rules()) {
      if (!is_of(type, rule.types)) continue;
      NumberCase* found = nullptr;
      for (NumberCase& one : cases)
        if (one.reduction.type == type && one.reduction.op == rule.op &&
            one.reduction.prescale == rule.prescale && one.reduction.postscale == rule.postscale)
          found = &one;
      if (found == nullptr)
        found = &cases.emplace_back(NumberCase{{type, rule.op, rule.prescale, rule.postscale}, {}});
      found->rules.push_back(rule);
    }
  return cases;
}

// Elements from `begin` on of a rank's input.
inline std::vector<std::byte> number_input(const NumberCase& c, std::size_t rank, std::size_t ranks,
                                           std::size_t begin, std::size_t count) {
  const std::size_t width = element_size(c.reduction.type);
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const NumberRule& rule = c.rules[(begin + i) % c.rules.size()];
    const std::size_t first = (begin + i) / c.rules.size() % ranks;
    const Number number = rank == first                 ? rule.first
                          : rank == (first + 1) % ranks ? rule.second
                                                        : rule.rest;
    const std::uint64_t bits = bits_of(number, c.reduction.type);
    std::memcpy(bytes.data() + i * width, &bits, width);  // little-endian
  }
  return bytes;
}

// The fault of a result of these elements; empty: nothing.
inline std::string number_fault(const NumberCase& c, const std::byte* got, std::size_t ranks,
                                std::size_t begin, std::size_t count, bool by_nccl) {
  const hvd::DataType type = c.reduction.type;
  const std::size_t width = element_size(type);
  for (std::size_t i = 0; i < count; ++i) {
    const NumberRule& rule = c.rules[(begin + i) % c.rules.size()];
    Number wanted = by_nccl && rule.on_gpu != Number::same ? rule.on_gpu : rule.wanted;
    if (ranks == 1) wanted = rule.alone == Number::same ? rule.first : rule.alone;
    std::uint64_t bits = 0;
    std::memcpy(&bits, got + i * width, width);
    std::uint64_t right = bits_of(wanted, type);
    bool good = bits == right;
    if (wanted == Number::any) good = true;
    if (wanted == Number::nan) good = is_nan(bits, type);
    if (wanted == Number::positive) good = bits > 0 && bits < float_bits(type).infinity;
    if (wanted == Number::wrapped_mean) {
      right = wrapped_mean(bits_of(rule.first, type), ranks, type);
      good = bits == right;
    }
    if (good) continue;
    Descriptor what;
    what.kind = OpKind::allreduce;
    what.type = type;
    what.op = c.reduction.op;
    what.count = count;
    char text[160];
    std::snprintf(text, sizeof text,
                  ", factors %g and %g, element %zu: rule %zu gives bits %llx, not %llx",
                  c.reduction.prescale, c.reduction.postscale, begin + i,
                  static_cast<std::size_t>(&rule - c.rules.data()),
                  static_cast<unsigned long long>(bits), static_cast<unsigned long long>(right));
    return describe(what) + text;
  }
  return {};
}

// adasum is not element by element: what is not finite in one element makes all of the tensor NaN.
inline constexpr std::array kFloatTypes{hvd::DataType::float16, hvd::DataType::bfloat16,
                                        hvd::DataType::float32, hvd::DataType::float64};
// All ones, but for one `number` of the last rank.
inline std::vector<std::byte> adasum_input(hvd::DataType type, Number number, std::size_t rank,
                                           std::size_t ranks, std::size_t count) {
  const std::size_t width = element_size(type);
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const bool odd = rank + 1 == ranks && i == count / 2;
    const std::uint64_t bits = bits_of(odd ? number : Number::one, type);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}
inline bool all_nan(const std::byte* data, std::size_t count, hvd::DataType type) {
  const std::size_t width = element_size(type);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data + i * width, width);
    if (!is_nan(bits, type)) return false;
  }
  return true;
}

}  // namespace hvdrun::test
