#include "worker/hvd/gpu/nccl_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/descriptor.h"

namespace hvdrun {
namespace {

using hvd::DataType;
using hvd::ReduceOp;

nccl::DataType reduced_type(DataType type) {
  switch (type) {
    case DataType::int8:
      return nccl::int8;
    case DataType::uint8:
    case DataType::boolean:
      return nccl::uint8;
    case DataType::int32:
      return nccl::int32;
    case DataType::int64:
      return nccl::int64;
    case DataType::float16:
      return nccl::float16;
    case DataType::bfloat16:
      return nccl::bfloat16;
    case DataType::float32:
      return nccl::float32;
    case DataType::float64:
      return nccl::float64;
    case DataType::int16:
    case DataType::uint16:
      break;
  }
  throw hvd::Error(hvd::ErrorCode::invalid_argument,
                   "NCCL does not reduce 16-bit integers; convert them to int32");
}

bool is_float(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float32 ||
         type == DataType::float64;
}

nccl::RedOp plain_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::average:
      return nccl::avg;
    case ReduceOp::sum:
      return nccl::sum;
    case ReduceOp::min:
      return nccl::min;
    case ReduceOp::max:
      return nccl::max;
    case ReduceOp::product:
      return nccl::prod;
    case ReduceOp::adasum:
      throw hvd::Error(hvd::ErrorCode::invalid_argument, "NCCL knows no adasum");
  }
  throw hvd::Error(hvd::ErrorCode::invalid_argument, "unknown reduction");
}

// The factor as one element, rounded once. The CPU's own reduction does it: 1 * factor.
std::array<std::byte, 8> scalar_of(DataType type, double factor) {
  std::array<std::byte, 8> one{};
  std::array<std::byte, 8> result{};
  const auto put = [&](auto value) { std::memcpy(one.data(), &value, sizeof(value)); };
  switch (type) {
    case DataType::float16:
      put(std::uint16_t{0x3c00});
      break;
    case DataType::bfloat16:
      put(std::uint16_t{0x3f80});
      break;
    case DataType::float32:
      put(1.0F);
      break;
    default:
      put(1.0);
  }
  const std::byte* source = one.data();
  std::byte* output = result.data();
  reduce_buffers(&source, 1, 1, {type, ReduceOp::sum, factor, 1}, &output, 1);
  return result;
}

// True: the scalar does what the factor does in float32. It is no subnormal, 0 or infinity of its
// type that the factor is not, and 16 bits hold all of it. Else every element would be wrong by the
// same part.
bool holds(DataType type, const std::array<std::byte, 8>& scalar, double factor, double share) {
  const auto get = [&](auto value) {
    std::memcpy(&value, scalar.data(), sizeof(value));
    return value;
  };
  const auto in_float32 = static_cast<float>(factor);
  if (type == DataType::float64)
    return factor == 0 || std::isinf(factor) || std::isnormal(get(0.0));
  if (in_float32 == 0 || std::isinf(in_float32)) return true;
  if (type == DataType::float32) return std::isnormal(get(0.0F));
  const unsigned most = type == DataType::float16 ? 0x7c00 : 0x7f80;  // the exponent's bits
  const unsigned exponent = get(std::uint16_t{}) & most;
  const std::uint32_t lost = type == DataType::float16 ? 0x1fff : 0xffff;
  return exponent != 0 && exponent != most &&
         (std::bit_cast<std::uint32_t>(static_cast<float>(factor * share)) & lost) == 0;
}

}  // namespace

NcclReduction plan_reduction(const Reduction& reduction, int ranks) {
  NcclReduction plan;
  plan.type = reduced_type(reduction.type);
  plan.op = plain_op(reduction.op);
  plan.after = reduction.postscale;
  if (reduction.type == DataType::boolean) {
    // Bytes of any value: the largest is "or", the smallest "and", as far as "is it 0" goes.
    plan.op =
        reduction.op == ReduceOp::sum || reduction.op == ReduceOp::max ? nccl::max : nccl::min;
    plan.normalise = true;
  }
  plan.before = reduction.prescale;
  if (is_float(reduction.type) &&
      (reduction.op == ReduceOp::min || reduction.op == ReduceOp::max)) {
    plan.ordered = true;
    plan.type = reduction.type == DataType::float64 ? nccl::int64 : nccl::int32;
    return plan;
  }
  if (reduction.prescale == 1) return plan;
  const bool adds = reduction.op == ReduceOp::sum || reduction.op == ReduceOp::average;
  if (adds && is_float(reduction.type)) {
    const double share = reduction.op == ReduceOp::average ? 1.0 / ranks : 1.0;
    plan.scalar = scalar_of(reduction.type, reduction.prescale * share);
    plan.premultiply = holds(reduction.type, plan.scalar, reduction.prescale, share);
    if (plan.premultiply) plan.before = 1;
  }
  return plan;
}

std::vector<std::vector<KeyPiece>> key_rounds(const std::vector<std::size_t>& counts,
                                              std::size_t most) {
  std::vector<std::vector<KeyPiece>> rounds;
  std::size_t filled = most;
  for (std::size_t part = 0; part < counts.size(); ++part) {
    for (std::size_t begin = 0; begin < counts[part];) {
      if (filled == most) {
        rounds.emplace_back();
        filled = 0;
      }
      const std::size_t count = std::min(counts[part] - begin, most - filled);
      rounds.back().push_back({part, begin, count, filled});
      begin += count;
      filled += count;
    }
  }
  return rounds;
}

std::size_t scattered_each(const std::vector<std::size_t>& counts, std::size_t most) {
  const std::size_t largest = *std::max_element(counts.begin(), counts.end());
  if (sum_of(counts.data(), counts.size()) <= most) return largest;
  return std::max<std::size_t>(1, most / counts.size());
}

std::vector<AdasumRound> adasum_rounds(int rank, int size) {
  std::vector<AdasumRound> rounds;
  for (int distance = 1; distance < size; distance *= 2) {
    AdasumRound round;
    const int base = rank / (2 * distance) * (2 * distance);
    const int second = base + distance;  // where the other group begins
    round.first = rank < second;
    if (second >= size) {
      round.from = rank;
    } else {
      const int seconds = std::min(distance, size - second);
      round.from = round.first ? second + (rank - base) % seconds : rank - distance;
      if (!round.first) {
        for (int peer = rank - distance; peer < second; peer += seconds) round.to.push_back(peer);
      } else if (rank - base < seconds) {
        round.to.push_back(rank + distance);
      }
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

nccl::DataType moved_type(DataType type, std::size_t& count) {
  switch (element_size(type)) {
    case 8:
      return nccl::int64;
    case 4:
      return nccl::int32;
    case 2:
      count *= 2;
      return nccl::uint8;
    default:
      return nccl::uint8;
  }
}

}  // namespace hvdrun
