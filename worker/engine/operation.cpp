#include "worker/engine/operation.h"

#include <cstdint>
#include <limits>
#include <string>

namespace hvdrun {
namespace {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::barrier:
      return "barrier";
    case OpKind::allreduce:
      return "allreduce";
    case OpKind::broadcast:
      return "broadcast";
    case OpKind::allgather:
      return "allgather";
  }
  return "operation";
}

[[noreturn]] void invalid(const Operation& operation, const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::invalid_argument,
                   std::string(name_of(operation.kind)) + ": " + what);
}

}  // namespace

void check(const Operation& operation, int size) {
  if (operation.kind == OpKind::barrier) return;
  const std::size_t width = element_size(operation.type);
  if (width == 0) {
    invalid(operation,
            "unknown data type " + std::to_string(static_cast<unsigned>(operation.type)));
  }
  const auto ranks = static_cast<std::size_t>(size);
  // The sum of all inputs must be addressable too, whether or not the output holds it.
  constexpr auto kMaxBytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (operation.count > kMaxBytes / width / ranks)
    invalid(operation, std::to_string(operation.count) + " elements are more than memory can hold");
  if (operation.kind == OpKind::allreduce && operation.op != hvd::ReduceOp::average &&
      operation.op != hvd::ReduceOp::sum) {
    invalid(operation,
            "unknown reduce operation " + std::to_string(static_cast<unsigned>(operation.op)));
  }
  if (operation.kind == OpKind::broadcast && (operation.root < 0 || operation.root >= size)) {
    invalid(operation, "root " + std::to_string(operation.root) + " is not a rank of 0 to " +
                           std::to_string(size - 1));
  }
  if (operation.count == 0) return;
  if (operation.output == nullptr) invalid(operation, "the output buffer is null");
  if (operation.kind != OpKind::broadcast && operation.input == nullptr)
    invalid(operation, "the input buffer is null");
}

void execute(const Operation& operation, Communicator& communicator, const CallOptions& options) {
  switch (operation.kind) {
    case OpKind::barrier:
      return communicator.barrier(options);
    case OpKind::allreduce:
      return communicator.allreduce(operation.input, operation.output, operation.count,
                                    operation.type, operation.op, options);
    case OpKind::broadcast:
      return communicator.broadcast(operation.output, operation.count, operation.type,
                                    operation.root, options);
    case OpKind::allgather:
      return communicator.allgather(operation.input, operation.output, operation.count,
                                    operation.type, options);
  }
}

}  // namespace hvdrun
