// The loops of reduce_buffers(), compiled once for each instruction set. A source defines
// HVD_REDUCE_VARIANT, includes this, and is compiled with the options of that set and -O3. There is
// no contraction to fused multiply-add, so that all give the same bits.
//
// Nothing here calls an inline function of another header: the linker keeps one copy of such a
// function, which may be that of the newest processor. Hence no <algorithm>, and memcpy as a
// builtin.
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/comm/reduce/reduce_operations.h"

namespace hvdrun::HVD_REDUCE_VARIANT {
namespace {

constexpr std::size_t kBlock = 512;  // elements; the accumulators stay in the first-level cache

// An element of a buffer that may stand anywhere.
template <class T>
struct __attribute__((packed, may_alias)) Raw {
  T value;
};

// -- Each type of element: its way into an accumulator and back --

struct Half {
  using Stored = std::uint16_t;
  // By integers and a subtraction of normal numbers: subnormals come out right whatever the
  // processor's mode for them. A signaling NaN becomes quiet, as the processor's conversion does
  // it.
  static float load(Stored half) {
    constexpr std::uint32_t kExponent = 0x7c00U << 13;
    std::uint32_t bits = (half & 0x7fffU) << 13;
    const std::uint32_t exponent = bits & kExponent;
    const bool nan = bits > kExponent;
    bits += 112U << 23;
    const std::uint32_t large = (bits + (112U << 23)) | (nan ? 0x00400000U : 0U);
    const std::uint32_t small = bits_of(float_of(bits + (1U << 23)) - 0x1p-14F);
    bits = exponent == kExponent ? large : exponent == 0 ? small : bits;
    return float_of(bits | (half & 0x8000U) << 16);
  }
  static Stored store(float value) {
    const std::uint32_t all = bits_of(value);
    const std::uint32_t sign = all & 0x80000000U;
    const std::uint32_t bits = all ^ sign;
    const std::uint32_t special = bits > 0x7f800000U ? (0x7e00U | (bits >> 13 & 0x3ffU)) : 0x7c00U;
    // The addition rounds: the sum's last bit is worth the smallest half.
    constexpr std::uint32_t kMagic = (127U - 15U + 23U - 10U + 1U) << 23;
    const std::uint32_t small = bits_of(float_of(bits) + float_of(kMagic)) - kMagic;
    const std::uint32_t odd = bits >> 13 & 1U;
    const std::uint32_t normal = (bits - (112U << 23) + 0xfffU + odd) >> 13;
    const std::uint32_t half = bits >= 143U << 23 ? special : bits < 113U << 23 ? small : normal;
    return static_cast<Stored>(half | sign >> 16);
  }
};

struct Brain {
  using Stored = std::uint16_t;
  static float load(Stored brain) { return float_of(static_cast<std::uint32_t>(brain) << 16); }
  static Stored store(float value) {
    const std::uint32_t bits = bits_of(value);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
    return static_cast<Stored>(nan ? (bits >> 16 | 0x40U) : rounded);
  }
};

// Any byte but 0 is true.
struct Truth {
  using Stored = std::uint8_t;
  static std::uint8_t load(Stored byte) { return byte != 0 ? 1 : 0; }
  static Stored store(std::uint8_t value) { return value; }
};

template <class T, class Acc>
struct Plain {
  using Stored = T;
  static Acc load(Stored value) { return static_cast<Acc>(value); }
  static Stored store(Acc value) { return static_cast<Stored>(value); }
};

// The nearest value of T, truncated toward zero; NaN is 0.
template <class T>
T truncated(double value) {
  constexpr bool kSigned = T(-1) < T(0);
  constexpr int kBits = static_cast<int>(sizeof(T)) * 8 - (kSigned ? 1 : 0);
  constexpr double kLimit = static_cast<double>(std::uint64_t{1} << (kBits - 1)) * 2;
  constexpr T kMax = static_cast<T>(~std::uint64_t{0} >> (64 - kBits));
  constexpr T kMin = kSigned ? static_cast<T>(-kMax - 1) : T(0);
  if (value >= kLimit) return kMax;
  if (value <= (kSigned ? -kLimit : 0.0)) return kMin;
  return value == value ? static_cast<T>(value) : T(0);
}

struct Call {
  const std::byte* const* sources;
  std::size_t ranks;
  std::size_t count;
  std::byte* const* outputs;
  std::size_t output_count;
  bool average;
  double prescale;
  double postscale;
  const std::byte* prefix;  // accumulators of the ranks before these; may be null
  bool unfinished;          // the outputs are accumulators too
  std::size_t divisor;      // ranks of the whole reduction
};

template <class Acc>
void load_accumulators(const std::byte* from, std::size_t start, std::size_t size, Acc* acc) {
  __builtin_memcpy(acc, from + start * sizeof(Acc), size * sizeof(Acc));
}

template <class Acc>
void store_accumulators(const Call& call, std::size_t start, std::size_t size, const Acc* acc) {
  for (std::size_t i = 0; i < call.output_count; ++i)
    __builtin_memcpy(call.outputs[i] + start * sizeof(Acc), acc, size * sizeof(Acc));
}

// --- loading and storing a block

template <class Codec, class Acc>
void load_block(const std::byte* from, std::size_t size, Acc* to) {
  const auto* source = reinterpret_cast<const Raw<typename Codec::Stored>*>(from);
  for (std::size_t i = 0; i < size; ++i) to[i] = Codec::load(source[i].value);
}

template <class Codec, class Op, class Acc>
void combine_block(const std::byte* from, std::size_t size, Acc* acc) {
  const auto* source = reinterpret_cast<const Raw<typename Codec::Stored>*>(from);
  for (std::size_t i = 0; i < size; ++i)
    acc[i] = Op::template combine<Acc>(acc[i], Codec::load(source[i].value));
}

template <class Codec, class Acc>
void store_block(const Acc* from, std::size_t size, std::byte* to) {
  auto* target = reinterpret_cast<Raw<typename Codec::Stored>*>(to);
  for (std::size_t i = 0; i < size; ++i) target[i].value = Codec::store(from[i]);
}

#if defined(__AVX2__)
// The processor's own conversions, which give the same bits as Half's.
template <>
void load_block<Half, float>(const std::byte* from, std::size_t size, float* to) {
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8)
    _mm256_storeu_ps(
        to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from + 2 * i))));
  const auto* source = reinterpret_cast<const Raw<std::uint16_t>*>(from);
  for (; i < size; ++i) to[i] = Half::load(source[i].value);
}

template <>
void store_block<Half, float>(const float* from, std::size_t size, std::byte* to) {
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i_u*>(to + 2 * i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  auto* target = reinterpret_cast<Raw<std::uint16_t>*>(to);
  for (; i < size; ++i) target[i].value = Half::store(from[i]);
}
#endif

// --- floating-point numbers: Acc is float or double

template <class Codec, class Op, class Acc>
void reduce_floats(const Call& call) {
  alignas(64) Acc acc[kBlock];
  alignas(64) Acc next[kBlock];
  alignas(64) typename Codec::Stored result[kBlock];
  constexpr std::size_t kWidth = sizeof(typename Codec::Stored);
  const Acc prescale = static_cast<Acc>(call.prescale);
  const Acc postscale = static_cast<Acc>(call.postscale);
  const Acc divisor = static_cast<Acc>(call.divisor);
  const std::size_t first = call.prefix != nullptr ? 0 : 1;  // rank that is combined, not loaded
  for (std::size_t start = 0; start < call.count; start += kBlock) {
    const std::size_t left = call.count - start;
    const std::size_t size = left < kBlock ? left : kBlock;
    const auto source = [&](std::size_t rank) { return call.sources[rank] + start * kWidth; };
    if (call.prefix != nullptr)
      load_accumulators(call.prefix, start, size, acc);
    else
      load_block<Codec>(source(0), size, acc);
    if (call.prescale == 1) {
      for (std::size_t rank = first; rank < call.ranks; ++rank) {
        if constexpr (sizeof(Acc) == kWidth) {
          combine_block<Codec, Op>(source(rank), size, acc);
        } else {
          load_block<Codec>(source(rank), size, next);
          for (std::size_t i = 0; i < size; ++i)
            acc[i] = Op::template combine<Acc>(acc[i], next[i]);
        }
      }
    } else {
      if (first == 1)
        for (std::size_t i = 0; i < size; ++i) acc[i] = acc[i] * prescale;
      for (std::size_t rank = first; rank < call.ranks; ++rank) {
        load_block<Codec>(source(rank), size, next);
        for (std::size_t i = 0; i < size; ++i)
          acc[i] = Op::template combine<Acc>(acc[i], next[i] * prescale);
      }
    }
    if (call.unfinished) {
      store_accumulators(call, start, size, acc);
      continue;
    }
    if (call.average)
      for (std::size_t i = 0; i < size; ++i) acc[i] = acc[i] / divisor;
    if (call.postscale != 1)
      for (std::size_t i = 0; i < size; ++i) acc[i] = acc[i] * postscale;
    store_block<Codec>(acc, size, reinterpret_cast<std::byte*>(result));
    for (std::size_t i = 0; i < call.output_count; ++i)
      __builtin_memcpy(call.outputs[i] + start * kWidth, result, size * kWidth);
  }
}

// A register full of elements, wherever they stand.
template <class T>
struct Vector {
#if defined(__AVX512F__)
  static constexpr std::size_t kBytes = 64;
#elif defined(__AVX2__)
  static constexpr std::size_t kBytes = 32;
#else
  static constexpr std::size_t kBytes = 16;
#endif
  typedef T type __attribute__((vector_size(kBytes), aligned(1), may_alias));
};

// The sum or average of two or four ranks in one pass, which is what most reductions are. An output
// may be an input: each element is read before it is written. Vectors by hand, because whether the
// compiler makes them depends on what it takes for the likely branch.
template <class V, class T, bool kAverage, std::size_t kRanks, std::size_t kOutputs>
inline void reduce_at(const std::byte* const* sources, std::byte* const* outputs, std::size_t at) {
  V value = *reinterpret_cast<const V*>(sources[0] + at);
  for (std::size_t rank = 1; rank < kRanks; ++rank)
    value = value + *reinterpret_cast<const V*>(sources[rank] + at);
  // A power of two: the same bits as a division.
  if (kAverage) value = value * (T(1) / T(kRanks));
  for (std::size_t i = 0; i < kOutputs; ++i) *reinterpret_cast<V*>(outputs[i] + at) = value;
}

template <class T, bool kAverage, std::size_t kRanks, std::size_t kOutputs>
void reduce_few(const Call& call) {
  using Full = typename Vector<T>::type;
  typedef T Single __attribute__((aligned(1), may_alias));
  const std::byte* sources[kRanks];
  std::byte* outputs[kOutputs];
  for (std::size_t i = 0; i < kRanks; ++i) sources[i] = call.sources[i];
  for (std::size_t i = 0; i < kOutputs; ++i) outputs[i] = call.outputs[i];
  const std::size_t bytes = call.count * sizeof(T);
  std::size_t at = 0;
  for (; at + sizeof(Full) <= bytes; at += sizeof(Full))
    reduce_at<Full, T, kAverage, kRanks, kOutputs>(sources, outputs, at);
  for (; at < bytes; at += sizeof(T))
    reduce_at<Single, T, kAverage, kRanks, kOutputs>(sources, outputs, at);
}

template <class T, bool kAverage, std::size_t kRanks>
bool reduces_in_one_pass(const Call& call) {
  switch (call.output_count) {
    case 1:
      reduce_few<T, kAverage, kRanks, 1>(call);
      return true;
    case 2:
      reduce_few<T, kAverage, kRanks, 2>(call);
      return true;
    case 4:
      reduce_few<T, kAverage, kRanks, 4>(call);
      return true;
    default:
      return false;
  }
}

template <class T, bool kAverage>
bool reduces_in_one_pass(const Call& call) {
  if (call.ranks == 2) return reduces_in_one_pass<T, kAverage, 2>(call);
  return call.ranks == 4 && reduces_in_one_pass<T, kAverage, 4>(call);
}

template <class T>
bool reduces_in_one_pass(const Call& call, hvd::ReduceOp op) {
  const bool average = op == hvd::ReduceOp::average && !call.unfinished;
  if ((op != hvd::ReduceOp::sum && op != hvd::ReduceOp::average) || call.prescale != 1 ||
      (call.postscale != 1 && !call.unfinished))
    return false;
  // The sum so far is of the elements' type: the first of the sources.
  if (call.prefix != nullptr) {
    if (call.ranks != 1 || average) return false;
    const std::byte* const both[] = {call.prefix, call.sources[0]};
    Call pair = call;
    pair.sources = both;
    pair.ranks = 2;
    return reduces_in_one_pass<T, false>(pair);
  }
  if (average) return call.divisor == call.ranks && reduces_in_one_pass<T, true>(call);
  return reduces_in_one_pass<T, false>(call);
}

template <class Codec, class Acc>
void reduce_floats(const Call& call, hvd::ReduceOp op) {
  if constexpr (sizeof(typename Codec::Stored) == sizeof(Acc))
    if (reduces_in_one_pass<Acc>(call, op)) return;
  switch (op) {
    case hvd::ReduceOp::average:
    case hvd::ReduceOp::sum:
      return reduce_floats<Codec, Sum, Acc>(call);
    case hvd::ReduceOp::min:
      return reduce_floats<Codec, Min, Acc>(call);
    case hvd::ReduceOp::max:
      return reduce_floats<Codec, Max, Acc>(call);
    case hvd::ReduceOp::product:
      return reduce_floats<Codec, Product, Acc>(call);
    case hvd::ReduceOp::adasum:
      return;
  }
}

// --- integers and bool. T is the element; Acc is unsigned where results wrap, wider for an
// average.

template <class Codec, class Op, class Acc>
void reduce_integers(const Call& call) {
  using T = typename Codec::Stored;
  alignas(64) Acc acc[kBlock];
  alignas(64) T result[kBlock];
  const bool scaled = call.prescale != 1;
  for (std::size_t start = 0; start < call.count; start += kBlock) {
    const std::size_t left = call.count - start;
    const std::size_t size = left < kBlock ? left : kBlock;
    if (call.prefix != nullptr) load_accumulators(call.prefix, start, size, acc);
    for (std::size_t rank = 0; rank < call.ranks; ++rank) {
      const std::byte* from = call.sources[rank] + start * sizeof(T);
      if (scaled) {
        const auto* source = reinterpret_cast<const Raw<T>*>(from);
        for (std::size_t i = 0; i < size; ++i)
          result[i] = truncated<T>(static_cast<double>(source[i].value) * call.prescale);
        from = reinterpret_cast<const std::byte*>(result);
      }
      if (rank == 0 && call.prefix == nullptr) {
        load_block<Codec>(from, size, acc);
      } else {
        combine_block<Codec, Op>(from, size, acc);
      }
    }
    if (call.unfinished) {
      store_accumulators(call, start, size, acc);
      continue;
    }
    if (call.average) {
      const auto divisor = static_cast<std::int64_t>(call.divisor);
      for (std::size_t i = 0; i < size; ++i)
        acc[i] = static_cast<Acc>(static_cast<std::int64_t>(acc[i]) / divisor);
    }
    store_block<Codec>(acc, size, reinterpret_cast<std::byte*>(result));
    if (call.postscale != 1)
      for (std::size_t i = 0; i < size; ++i)
        result[i] = truncated<T>(static_cast<double>(result[i]) * call.postscale);
    for (std::size_t i = 0; i < call.output_count; ++i)
      __builtin_memcpy(call.outputs[i] + start * sizeof(T), result, size * sizeof(T));
  }
}

template <class T, class Wrap>
void reduce_integers(const Call& call, hvd::ReduceOp op) {
  switch (op) {
    case hvd::ReduceOp::average:
      // All sums of fewer than 2^32 ranks fit, but those of int64, which wrap.
      if constexpr (sizeof(T) < 8)
        return reduce_integers<Plain<T, std::int64_t>, Sum, std::int64_t>(call);
      return reduce_integers<Plain<T, Wrap>, Sum, Wrap>(call);
    case hvd::ReduceOp::sum:
      return reduce_integers<Plain<T, Wrap>, Sum, Wrap>(call);
    case hvd::ReduceOp::min:
      return reduce_integers<Plain<T, T>, Min, T>(call);
    case hvd::ReduceOp::max:
      return reduce_integers<Plain<T, T>, Max, T>(call);
    case hvd::ReduceOp::product:
      return reduce_integers<Plain<T, Wrap>, Product, Wrap>(call);
    case hvd::ReduceOp::adasum:
      return;
  }
}

void reduce_bools(const Call& call, hvd::ReduceOp op) {
  if (op == hvd::ReduceOp::min || op == hvd::ReduceOp::product)
    return reduce_integers<Truth, And, std::uint8_t>(call);
  return reduce_integers<Truth, Or, std::uint8_t>(call);
}

}  // namespace

void reduce_buffers(const std::byte* const* sources, std::size_t ranks, std::size_t count,
                    const Reduction& reduction, std::byte* const* outputs, std::size_t output_count,
                    const PartOfReduction& part) {
  const hvd::ReduceOp op = reduction.op;
  const Call call{sources,
                  ranks,
                  count,
                  outputs,
                  output_count,
                  op == hvd::ReduceOp::average,
                  reduction.prescale,
                  reduction.postscale,
                  part.prefix,
                  part.unfinished,
                  part.ranks == 0 ? ranks : part.ranks};
  switch (reduction.type) {
    case hvd::DataType::uint8:
      return reduce_integers<std::uint8_t, std::uint32_t>(call, op);
    case hvd::DataType::int8:
      return reduce_integers<std::int8_t, std::uint32_t>(call, op);
    case hvd::DataType::uint16:
      return reduce_integers<std::uint16_t, std::uint32_t>(call, op);
    case hvd::DataType::int16:
      return reduce_integers<std::int16_t, std::uint32_t>(call, op);
    case hvd::DataType::int32:
      return reduce_integers<std::int32_t, std::uint32_t>(call, op);
    case hvd::DataType::int64:
      return reduce_integers<std::int64_t, std::uint64_t>(call, op);
    case hvd::DataType::float16:
      return reduce_floats<Half, float>(call, op);
    case hvd::DataType::bfloat16:
      return reduce_floats<Brain, float>(call, op);
    case hvd::DataType::float32:
      return reduce_floats<Plain<float, float>, float>(call, op);
    case hvd::DataType::float64:
      return reduce_floats<Plain<double, double>, double>(call, op);
    case hvd::DataType::boolean:
      return reduce_bools(call, op);
  }
}

}  // namespace hvdrun::HVD_REDUCE_VARIANT
