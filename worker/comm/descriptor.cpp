#include "worker/comm/descriptor.h"

namespace hvdrun {
namespace {

const char* type_name(hvd::DataType type) {
  switch (type) {
    case hvd::DataType::int32:
      return "int32";
    case hvd::DataType::int64:
      return "int64";
    case hvd::DataType::float32:
      return "float32";
    case hvd::DataType::float64:
      return "float64";
  }
  return "unknown type";
}

std::string data(const Descriptor& descriptor) {
  return std::string(type_name(descriptor.type)) + ", " + std::to_string(descriptor.count) +
         (descriptor.count == 1 ? " element" : " elements");
}

}  // namespace

std::string describe(const Descriptor& descriptor) {
  switch (descriptor.kind) {
    case OpKind::barrier:
      return "barrier()";
    case OpKind::allreduce:
      return "allreduce(" + data(descriptor) +
             (descriptor.op == hvd::ReduceOp::average ? ", average)" : ", sum)");
    case OpKind::broadcast:
      return "broadcast(" + data(descriptor) + ", root " + std::to_string(descriptor.root) + ")";
    case OpKind::allgather:
      return "allgather(" + data(descriptor) + ")";
  }
  return "unknown operation";
}

}  // namespace hvdrun
