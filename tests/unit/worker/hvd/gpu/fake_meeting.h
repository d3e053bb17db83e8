// The words of a fake communicator's ranks to each other, and what each gets of them.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/gpu/fake_arithmetic.h"
#include "worker/hvd/gpu/nccl_api.h"

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

using Bytes = std::vector<std::byte>;

inline std::size_t width(const Call& call) { return hvd::size_of(hvd_type(call.type)); }

// The bytes that rank `rank` gets from call `index` of its group.
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
    nccl_reduce(sources, own.count, own.type, own.op, own.factor, output);
    if (own.kind == "reduce" && own.peer != rank) result.clear();
  }
  return result;
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
  // In an allgather this rank's own place.
  const std::size_t size = writer.count * width(writer) *
                           static_cast<std::size_t>(writer.kind == "all_gather" ? writer.ranks : 1);
  if (&reader == &writer && writer.kind == "all_gather" &&
      read == written + bytes * static_cast<std::size_t>(rank))
    return false;
  return written < read + bytes * ranks && read < written + size;
}

}  // namespace hvdrun::test
