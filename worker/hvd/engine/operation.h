// One collective as the caller asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/descriptor.h"

namespace hvdrun {

struct DeviceUse;

struct Operation {
  OpKind kind = OpKind::barrier;
  const void* input = nullptr;
  void* output = nullptr;  // broadcast: the data, both ways
  // allreduce, broadcast: elements. With equal counts: those of each rank.
  std::size_t count = 0;
  Reduction reduction = {};  // its type is that of every operation
  int root = 0;
  int root_name = -1;  // what words call it; -1: as it is
  // One for each rank, or none when all are `count`. alltoall: what is sent, then what is received.
  std::vector<std::size_t> counts = {};
  std::vector<std::size_t> receive_counts = {};
  // Counts are no part of the fingerprint; the communicator compares them.
  bool varying_counts = false;
  // An allreduce of many buffers; input, output and count are not looked at then.
  std::vector<BufferPart> parts = {};
  // Ranks find each other's operations by it. Without one: those without a name match in the order
  // of their submission.
  std::string name = {};
  // The tensor's; ranks must agree on it, too. May be left out.
  std::vector<std::int64_t> shape = {};
  // The caller's words for it, where it called another thing; empty: this.
  std::string description = {};
  // Null: the buffers are memory of the host. Of a barrier: see GpuSplit.
  std::shared_ptr<DeviceUse> device = {};
};

// "allreduce"
const char* name_of(OpKind kind);

// Elements of an allreduce or a broadcast.
std::size_t elements_of(const Operation& operation);

// The fingerprint of everything that must be the same on all ranks, but the name and counts that
// vary.
std::uint64_t fingerprint_of(const Operation& operation);

// "allreduce(float32, 8 elements, average)", with the shape in place of the elements where there is
// one: what two ranks are told that did not call the same.
std::string describe(const Operation& operation);

}  // namespace hvdrun
