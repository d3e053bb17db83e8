// One collective as the caller asked for it.
#pragma once

#include <cstddef>
#include <vector>

#include <hvd/hvd.h>

#include "worker/comm/communicator.h"
#include "worker/comm/descriptor.h"

namespace hvdrun {

struct Operation {
  OpKind kind = OpKind::barrier;
  const void* input = nullptr;
  void* output = nullptr;  // broadcast: the data, both ways
  // allreduce, broadcast: elements. With equal counts: those of each rank.
  std::size_t count = 0;
  Reduction reduction = {};  // its type is that of every operation
  int root = 0;
  // One for each rank, or none when all are `count`. alltoall: what is sent, then what is received.
  std::vector<std::size_t> counts = {};
  std::vector<std::size_t> receive_counts = {};
};

// Throws Error(invalid_argument) for what no rank could run: it must not reach the others.
void check(const Operation& operation, const Communicator& communicator);

void execute(const Operation& operation, Communicator& communicator, const CallOptions& options);

}  // namespace hvdrun
