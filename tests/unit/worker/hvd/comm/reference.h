// The result that a collective must give, computed serially and compared bit by bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/comm/buffers.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "tests/unit/worker/hvd/comm/reference_types.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/descriptor.h"

namespace hvdrun::test {

struct Case {
  OpKind kind = OpKind::barrier;
  Reduction reduction = {};  // its type is that of every operation
  std::size_t count = 0;     // allgather, reducescatter, alltoall: of each rank
  bool uneven = false;       // there: around `count`, other for each rank, sometimes 0
  int root = 0;
  bool in_place = false;
  std::size_t misalign = 0;  // bytes before the buffers
  enum class Memory : std::uint8_t {
    heap,
    shared,
    mixed,  // shared on some ranks
  } memory = Memory::heap;
  std::uint64_t round = 0;  // the data are different each time
};

inline std::string name_of(const Case& c) {
  Descriptor descriptor;
  descriptor.kind = c.kind;
  descriptor.count = c.count;
  descriptor.type = c.reduction.type;
  descriptor.op = c.reduction.op;
  descriptor.detail = c.kind == OpKind::broadcast ? static_cast<std::uint32_t>(c.root)
                                                  : scale_fingerprint(c.reduction);
  return describe(descriptor) + (c.uneven ? " uneven" : "") + (c.in_place ? " in place" : "") +
         (c.memory == Case::Memory::shared  ? " shared"
          : c.memory == Case::Memory::mixed ? " mixed"
                                            : "") +
         " round " + std::to_string(c.round);
}

// The count that `from` gives to or for `to`; for allgather and reducescatter both are the same
// rank.
inline std::size_t count_of(const Case& c, std::size_t from, std::size_t to) {
  if (!c.uneven) return c.count;
  const std::uint64_t bits = mix(c.round * 31 + from * 1009 + to);
  return bits % 5 == 0 ? 0 : c.count + bits % (c.count / 2 + 3);
}

inline std::vector<std::size_t> counts_of(const Case& c, std::size_t ranks) {
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < ranks; ++rank) counts.push_back(count_of(c, rank, rank));
  return counts;
}

// The input of `rank`, and its output. Inputs are value_of(round, rank, 0), 1, 2 and so on.
template <class T>
struct Expected {
  std::vector<T> input;
  std::vector<T> output;
};

template <class T>
Expected<T> expected(const Case& c, std::size_t rank, std::size_t ranks) {
  Expected<T> result;
  const auto value = [&](std::size_t from, std::size_t i) { return value_of<T>(c.round, from, i); };
  const auto sum = [&](std::size_t i) {
    return reduced<T>(c.round, ranks, i, c.reduction.op, c.reduction.prescale,
                      c.reduction.postscale);
  };
  std::size_t inputs = c.count;
  switch (c.kind) {
    case OpKind::barrier:
      inputs = 0;
      break;
    case OpKind::allreduce:
      for (std::size_t i = 0; i < c.count; ++i) result.output.push_back(sum(i));
      break;
    case OpKind::broadcast:
      for (std::size_t i = 0; i < c.count; ++i)
        result.output.push_back(value(static_cast<std::size_t>(c.root), i));
      break;
    case OpKind::allgather:
      for (std::size_t from = 0; from < ranks; ++from)
        for (std::size_t i = 0; i < count_of(c, from, from); ++i)
          result.output.push_back(value(from, i));
      inputs = count_of(c, rank, rank);
      break;
    case OpKind::reducescatter:
      inputs = 0;
      for (std::size_t to = 0; to < ranks; ++to) {
        if (to == rank)
          for (std::size_t i = 0; i < count_of(c, to, to); ++i)
            result.output.push_back(sum(inputs + i));
        inputs += count_of(c, to, to);
      }
      break;
    case OpKind::alltoall:
      inputs = 0;
      for (std::size_t to = 0; to < ranks; ++to) inputs += count_of(c, rank, to);
      for (std::size_t from = 0; from < ranks; ++from) {
        std::size_t begin = 0;
        for (std::size_t to = 0; to < rank; ++to) begin += count_of(c, from, to);
        for (std::size_t i = 0; i < count_of(c, from, rank); ++i)
          result.output.push_back(value(from, begin + i));
      }
      break;
  }
  for (std::size_t i = 0; i < inputs; ++i) result.input.push_back(value(rank, i));
  return result;
}

template <class T>
bool same(T a, T b) {
  // The patterns of a NaN may differ.
  if constexpr (!std::is_integral_v<T>)
    if (std::isnan(widen(a)) && std::isnan(widen(b))) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// `run(input, output)` does the collective of this rank; throws when the result is not the
// expected one or a byte beside it was touched.
template <class T, class Run>
void check_typed(const Case& c, std::size_t rank, std::size_t ranks, Run run,
                 BufferSource* memory = nullptr) {
  constexpr std::size_t kGuard = 64;
  constexpr char kFill = 0x5a;
  const auto [mine, want] = expected<T>(c, rank, ranks);
  const auto bytes_of = [](std::size_t count) { return count * sizeof(T); };
  std::size_t own_place = 0;  // of the input, when it is in place
  if (c.kind == OpKind::allgather)
    for (std::size_t before = 0; before < rank; ++before)
      own_place += bytes_of(count_of(c, before, before));
  const std::size_t in_bytes = bytes_of(mine.size());
  const std::size_t out_bytes = bytes_of(want.size());
  const std::size_t room = std::max(out_bytes, c.in_place ? own_place + in_bytes : 0);
  const bool shared = c.memory == Case::Memory::shared ||
                      (c.memory == Case::Memory::mixed && (c.round + rank) % 2 == 0);
  const Buffer input(in_bytes + c.misalign, kFill, shared ? memory : nullptr);
  const Buffer output(room + c.misalign + kGuard, kFill, shared ? memory : nullptr);
  char* const to = output.data() + c.misalign;
  char* const from = c.in_place ? to + own_place : input.data() + c.misalign;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const T value = mine[i];
    std::memcpy(from + i * sizeof(T), &value, sizeof(T));
  }
  const std::vector<char> before = input.copy();
  run(from, to);
  for (std::size_t i = 0; i < want.size(); ++i) {
    T got;
    std::memcpy(&got, to + i * sizeof(T), sizeof(T));
    const T wanted = want[i];
    if (!same(got, wanted)) {
      throw std::runtime_error(name_of(c) + ": element " + std::to_string(i) + " is " +
                               std::to_string(widen(got)) + ", not " +
                               std::to_string(widen(wanted)));
    }
  }
  expect(std::all_of(to + room, to + room + kGuard, [](char byte) { return byte == kFill; }),
         name_of(c) + ": wrote behind the output");
  expect(before == input.copy(), name_of(c) + ": changed the input");
}

// One case on one rank's communicator. Broadcast works on its output, which holds this rank's own
// data before: always "in place".
inline void check_collective(Case c, Communicator& communicator, const CallOptions& options,
                             BufferSource* memory = nullptr) {
  if (c.kind == OpKind::broadcast) c.in_place = true;
  if (c.kind == OpKind::alltoall && c.uneven) c.in_place = false;
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const hvd::DataType type = c.reduction.type;
  const auto run = [&](char* input, char* output) {
    switch (c.kind) {
      case OpKind::barrier:
        return communicator.barrier(options);
      case OpKind::allreduce:
        return communicator.allreduce(input, output, c.count, c.reduction, options);
      case OpKind::broadcast:
        return communicator.broadcast(output, c.count, type, c.root, options);
      case OpKind::allgather:
        return communicator.allgather(input, output, counts_of(c, ranks).data(), type, options);
      case OpKind::reducescatter:
        return communicator.reducescatter(input, output, counts_of(c, ranks).data(), c.reduction,
                                          options);
      case OpKind::alltoall: {
        std::vector<std::size_t> send;
        std::vector<std::size_t> receive;
        for (std::size_t other = 0; other < ranks; ++other) {
          send.push_back(count_of(c, rank, other));
          receive.push_back(count_of(c, other, rank));
        }
        return communicator.alltoall(input, send.data(), output, receive.data(), type, options);
      }
    }
  };
  with_type(type,
            [&](auto element) { check_typed<decltype(element)>(c, rank, ranks, run, memory); });
}

}  // namespace hvdrun::test
