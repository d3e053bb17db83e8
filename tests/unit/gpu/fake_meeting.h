// What the ranks of a fake communicator tell each other, and what each gets of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "worker/comm/reduce.h"
#include "worker/gpu/nccl_api.h"

namespace hvdrun::test {

struct Call {
  std::string kind;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  nccl::DataType type{};
  nccl::RedOp op{};
  double factor = 1;  // of a premultiplied sum
  int peer = 0;       // or root
  int ranks = 1;
};

struct Clique {
  explicit Clique(int ranks) : size(ranks) {}
  int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  int connecting = 0;  // have called their first group
  bool left = false;   // by one that has aborted: what others do together with it is an error
  // For each group, by its number: what each rank has called, how many have read it all.
  struct Meeting {
    std::map<int, std::vector<Call>> calls;
    int read = 0;
  };
  std::map<std::uint64_t, Meeting> meetings;
};

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

using Bytes = std::vector<std::byte>;

inline std::size_t width(const Call& call) { return hvd::size_of(hvd_type(call.type)); }

// What rank `rank` gets from call `index` of its group.
inline Bytes result_of(const Clique::Meeting& meeting, int rank, std::size_t index) {
  const Call& own = meeting.calls.at(rank)[index];
  const auto ranks = meeting.calls.size();
  Bytes result;
  const auto take = [&](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    result.insert(result.end(), begin, begin + bytes);
  };
  const auto call_of = [&](std::size_t r) -> const Call& {
    return meeting.calls.at(static_cast<int>(r))[index];
  };
  if (own.kind == "broadcast") {
    take(call_of(static_cast<std::size_t>(own.peer)).send, own.count * width(own));
  } else if (own.kind == "all_gather") {
    for (std::size_t r = 0; r < ranks; ++r) take(call_of(r).send, own.count * width(own));
  } else if (own.kind == "receive") {
    // The n-th receive from a peer gets its n-th send to us.
    const auto& mine = meeting.calls.at(rank);
    auto turn =
        std::count_if(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const Call& c) { return c.kind == "receive" && c.peer == own.peer; });
    for (const Call& theirs : meeting.calls.at(own.peer))
      if (theirs.kind == "send" && theirs.peer == rank && turn-- == 0)
        take(theirs.send, theirs.count * width(theirs));
  } else if (own.kind != "send") {
    const std::size_t skip =
        own.kind == "reduce_scatter" ? own.count * width(own) * static_cast<std::size_t>(rank) : 0;
    std::vector<const std::byte*> sources;
    for (std::size_t r = 0; r < ranks; ++r)
      sources.push_back(static_cast<const std::byte*>(call_of(r).send) + skip);
    result.resize(own.count * width(own));
    std::byte* output = result.data();
    reduce(sources.data(), ranks, own.count, {hvd_type(own.type), hvd_op(own.op), own.factor, 1},
           &output, 1);
    if (own.kind == "reduce" && own.peer != rank) result.clear();
  }
  return result;
}

// A scalar of NCCL's as a number.
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
      const double value =
          exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
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

// NCCL reads while it writes: a result may stand nowhere in an input but where the same element is.
inline bool overlap(const Call& reader, const Call& writer, int rank) {
  if (reader.send == nullptr || writer.receive == nullptr) return false;
  const bool scatters = reader.kind == "reduce_scatter";
  const auto ranks = scatters ? static_cast<std::size_t>(reader.ranks) : 1;
  const auto* read = static_cast<const std::byte*>(reader.send);
  const auto* written = static_cast<const std::byte*>(writer.receive);
  const std::size_t bytes = reader.count * width(reader);
  if (&reader == &writer &&
      written == read + (scatters ? bytes * static_cast<std::size_t>(rank) : 0))
    return false;
  // Of an allgather this rank's own place.
  const std::size_t size = writer.count * width(writer) *
                           static_cast<std::size_t>(writer.kind == "all_gather" ? writer.ranks : 1);
  if (&reader == &writer && writer.kind == "all_gather" &&
      read == written + bytes * static_cast<std::size_t>(rank))
    return false;
  return written < read + bytes * ranks && read < written + size;
}

}  // namespace hvdrun::test
