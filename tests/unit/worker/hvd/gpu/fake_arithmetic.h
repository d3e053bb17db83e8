// The fake NCCL's reductions: as NCCL's, what it gets wrong included.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun::test {

inline hvd::DataType hvd_type(nccl::DataType type) {
  switch (type) {
    case nccl::int8:
      return hvd::DataType::int8;
    case nccl::uint8:
      return hvd::DataType::uint8;
    case nccl::int32:
      return hvd::DataType::int32;
    case nccl::int64:
      return hvd::DataType::int64;
    case nccl::float16:
      return hvd::DataType::float16;
    case nccl::bfloat16:
      return hvd::DataType::bfloat16;
    case nccl::float64:
      return hvd::DataType::float64;
    default:
      return hvd::DataType::float32;
  }
}

inline nccl::DataType nccl_type(int type) {
  switch (static_cast<hvd::DataType>(type)) {
    case hvd::DataType::float16:
      return nccl::float16;
    case hvd::DataType::bfloat16:
      return nccl::bfloat16;
    case hvd::DataType::float64:
      return nccl::float64;
    default:
      return nccl::float32;
  }
}

inline hvd::ReduceOp hvd_op(nccl::RedOp op) {
  switch (op) {
    case nccl::prod:
      return hvd::ReduceOp::product;
    case nccl::max:
      return hvd::ReduceOp::max;
    case nccl::min:
      return hvd::ReduceOp::min;
    case nccl::avg:
      return hvd::ReduceOp::average;
    default:
      return hvd::ReduceOp::sum;
  }
}

// An element, or a scalar of NCCL's, as a number.
inline double decode(const void* scalar, nccl::DataType type) {
  std::uint16_t half = 0;
  std::memcpy(&half, scalar, sizeof(half));
  switch (type) {
    case nccl::float64: {
      double value = 0;
      std::memcpy(&value, scalar, sizeof(value));
      return value;
    }
    case nccl::float16: {
      const int exponent = half >> 10 & 31;
      const double fraction = (half & 1023) / 1024.0;
      const double value = exponent == 31 && fraction != 0 ? std::nan("")
                           : exponent == 31                ? HUGE_VAL
                           : exponent == 0                 ? std::ldexp(fraction, -14)
                                           : std::ldexp(1 + fraction, exponent - 15);
      return (half & 0x8000) != 0 ? -value : value;
    }
    default: {
      std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
      if (type == nccl::float32) std::memcpy(&bits, scalar, sizeof(bits));
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      return value;
    }
  }
}

// The float that is no NaN, and the other where both are numbers; whole bytes, whatever -0 is.
inline void least_or_most(const std::byte* next, std::byte* so_far, nccl::DataType type,
                          std::size_t width, bool most) {
  const double a = decode(so_far, type);
  const double b = decode(next, type);
  if (std::isnan(a) || (most ? b > a : b < a)) std::memcpy(so_far, next, width);
}

// Combines in the elements' own type, 16-bit floats rounded after each step. An average of floats
// multiplies before it adds, one of integers divides a sum that has wrapped.
inline void nccl_reduce(const std::vector<const std::byte*>& sources, std::size_t count,
                        nccl::DataType as, nccl::RedOp op, double factor, std::byte* output) {
  const hvd::DataType type = hvd_type(as);
  const std::size_t width = hvd::size_of(type);
  const bool floats =
      as == nccl::float16 || as == nccl::bfloat16 || as == nccl::float32 || as == nccl::float64;
  const bool averages = op == nccl::avg;
  if (averages && floats) factor = 1.0 / static_cast<double>(sources.size());
  const hvd::ReduceOp step = averages ? hvd::ReduceOp::sum : hvd_op(op);
  std::vector<std::byte> next(count * width);
  std::byte* const scaled = next.data();
  for (std::size_t rank = 0; rank < sources.size(); ++rank) {
    std::byte* const target = rank == 0 ? output : scaled;
    reduce_buffers(&sources[rank], 1, count, {type, hvd::ReduceOp::sum, factor, 1}, &target, 1);
    if (rank == 0) continue;
    if (floats && (op == nccl::min || op == nccl::max)) {
      for (std::size_t i = 0; i < count * width; i += width)
        least_or_most(scaled + i, output + i, as, width, op == nccl::max);
      continue;
    }
    const std::byte* const both[] = {output, scaled};
    reduce_buffers(both, 2, count, {type, step}, &output, 1);
  }
  if (!averages || floats) return;
  // The sum of one such number and of zeros, divided.
  const std::vector<std::byte> zeros(count * width);
  std::vector<const std::byte*> shares(sources.size(), zeros.data());
  shares[0] = output;
  reduce_buffers(shares.data(), shares.size(), count, {type, hvd::ReduceOp::average}, &output, 1);
}

}  // namespace hvdrun::test
