// One collective as the caller asked for it.
#pragma once

#include <cstddef>

#include <hvd/hvd.h>

#include "worker/comm/communicator.h"
#include "worker/comm/descriptor.h"

namespace hvdrun {

struct Operation {
  OpKind kind = OpKind::barrier;
  const void* input = nullptr;
  void* output = nullptr;  // broadcast: the data, both ways
  std::size_t count = 0;
  hvd::DataType type = hvd::DataType::float32;
  hvd::ReduceOp op = hvd::ReduceOp::sum;
  int root = 0;
};

// Throws Error(invalid_argument) for what no rank could run: it must not reach the others.
void check(const Operation& operation, int size);

void execute(const Operation& operation, Communicator& communicator, const CallOptions& options);

}  // namespace hvdrun
