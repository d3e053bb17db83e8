// What a collective must give, computed serially and compared bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/comm/rank_threads.h"
#include "worker/comm/communicator.h"
#include "worker/comm/descriptor.h"

namespace hvdrun::test {

struct Case {
  OpKind kind = OpKind::barrier;
  hvd::DataType type = hvd::DataType::float32;
  hvd::ReduceOp op = hvd::ReduceOp::sum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  std::size_t misalign = 0;  // bytes before the buffers
  std::uint64_t round = 0;   // the data are different each time
};

inline std::string name_of(const Case& c) {
  Descriptor descriptor;
  descriptor.kind = c.kind;
  descriptor.count = c.count;
  descriptor.type = c.type;
  descriptor.op = c.op;
  descriptor.root = static_cast<std::uint32_t>(c.root);
  return describe(descriptor) + (c.in_place ? " in place" : "") + " round " +
         std::to_string(c.round);
}

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

template <class T>
T value_of(std::uint64_t round, std::size_t rank, std::size_t index) {
  const std::uint64_t bits = mix(round * 0x9e3779b97f4a7c15U + rank * 1000003 + index);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) *
           static_cast<T>(1 + bits % 1000);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(bits % 2000003) - 1000001);
  }
}

template <class T>
T reduced(const Case& c, std::size_t ranks, std::size_t index) {
  T sum = value_of<T>(c.round, 0, index);
  for (std::size_t rank = 1; rank < ranks; ++rank)
    sum = static_cast<T>(sum + value_of<T>(c.round, rank, index));
  return c.op == hvd::ReduceOp::average ? static_cast<T>(sum / static_cast<T>(ranks)) : sum;
}

template <class T>
std::vector<T> expected(const Case& c, std::size_t ranks) {
  std::vector<T> values;
  switch (c.kind) {
    case OpKind::barrier:
      break;
    case OpKind::allreduce:
      for (std::size_t i = 0; i < c.count; ++i) values.push_back(reduced<T>(c, ranks, i));
      break;
    case OpKind::broadcast:
      for (std::size_t i = 0; i < c.count; ++i)
        values.push_back(value_of<T>(c.round, static_cast<std::size_t>(c.root), i));
      break;
    case OpKind::allgather:
      for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t i = 0; i < c.count; ++i) values.push_back(value_of<T>(c.round, rank, i));
      break;
  }
  return values;
}

// `run(input, output)` does the collective of this rank; throws when the result is not the
// expected one or a byte beside it was touched.
template <class T, class Run>
void check_typed(const Case& c, std::size_t rank, std::size_t ranks, Run run) {
  constexpr std::size_t kGuard = 64;
  constexpr char kFill = 0x5a;
  const std::vector<T> want = expected<T>(c, ranks);
  const std::size_t want_bytes = want.size() * sizeof(T);
  std::vector<T> mine;
  for (std::size_t i = 0; i < c.count; ++i) mine.push_back(value_of<T>(c.round, rank, i));
  std::vector<char> input(mine.size() * sizeof(T) + c.misalign, kFill);
  std::vector<char> output(want_bytes + c.misalign + kGuard, kFill);
  char* const to = output.data() + c.misalign;
  char* const from = c.in_place ? to : input.data() + c.misalign;
  if (!mine.empty()) std::memcpy(from, mine.data(), mine.size() * sizeof(T));
  run(from, to);
  for (std::size_t i = 0; i < want.size(); ++i) {
    T got;
    std::memcpy(&got, to + i * sizeof(T), sizeof(T));
    if (std::memcmp(&got, &want[i], sizeof(T)) != 0) {
      throw std::runtime_error(name_of(c) + ": element " + std::to_string(i) + " is " +
                               std::to_string(got) + ", not " + std::to_string(want[i]));
    }
  }
  for (std::size_t i = 0; i < kGuard; ++i)
    expect(to[want_bytes + i] == kFill, name_of(c) + ": wrote behind the output");
  if (!c.in_place && !mine.empty())
    expect(std::memcmp(from, mine.data(), mine.size() * sizeof(T)) == 0,
           name_of(c) + ": changed the input");
}

template <class Run>
void check_case(const Case& c, int rank, int size, Run run) {
  const auto self = static_cast<std::size_t>(rank);
  const auto ranks = static_cast<std::size_t>(size);
  switch (c.type) {
    case hvd::DataType::int32:
      return check_typed<std::int32_t>(c, self, ranks, run);
    case hvd::DataType::int64:
      return check_typed<std::int64_t>(c, self, ranks, run);
    case hvd::DataType::float32:
      return check_typed<float>(c, self, ranks, run);
    case hvd::DataType::float64:
      return check_typed<double>(c, self, ranks, run);
  }
}

// One case on one rank's communicator. Broadcast works on its output, which holds this rank's own
// data before: always "in place".
inline void check_collective(Case c, Communicator& communicator, const CallOptions& options) {
  if (c.kind == OpKind::broadcast) c.in_place = true;
  check_case(c, communicator.rank(), communicator.size(), [&](char* input, char* output) {
    switch (c.kind) {
      case OpKind::barrier:
        return communicator.barrier(options);
      case OpKind::allreduce:
        return communicator.allreduce(input, output, c.count, c.type, c.op, options);
      case OpKind::broadcast:
        return communicator.broadcast(output, c.count, c.type, c.root, options);
      case OpKind::allgather:
        return communicator.allgather(input, output, c.count, c.type, options);
    }
  });
}

}  // namespace hvdrun::test
