#include "worker/hvd/comm/descriptor.h"

#include <cstdio>
#include <cstring>

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
    case hvd::DataType::uint8:
      return "uint8";
    case hvd::DataType::int8:
      return "int8";
    case hvd::DataType::uint16:
      return "uint16";
    case hvd::DataType::int16:
      return "int16";
    case hvd::DataType::float16:
      return "float16";
    case hvd::DataType::bfloat16:
      return "bfloat16";
    case hvd::DataType::boolean:
      return "bool";
  }
  return "unknown type";
}

const char* op_name(hvd::ReduceOp op) {
  switch (op) {
    case hvd::ReduceOp::average:
      return "average";
    case hvd::ReduceOp::sum:
      return "sum";
    case hvd::ReduceOp::min:
      return "min";
    case hvd::ReduceOp::max:
      return "max";
    case hvd::ReduceOp::product:
      return "product";
    case hvd::ReduceOp::adasum:
      return "adasum";
  }
  return "unknown reduction";
}

std::string elements(const Descriptor& descriptor) {
  return std::string(type_name(descriptor.type)) + ", " + std::to_string(descriptor.count) +
         (descriptor.count == 1 ? " element" : " elements");
}

std::string fingerprint(const char* what, std::uint32_t value) {
  if (value == 0) return {};
  char text[16];
  std::snprintf(text, sizeof text, "#%08x", value);
  return std::string(", ") + what + text;
}

std::string reduced(const Descriptor& descriptor) {
  const char* const detail = descriptor.op == hvd::ReduceOp::adasum ? "tensors and scale factors "
                             : descriptor.kind == OpKind::allreduce ? "scale factors "
                                                                    : "counts and scale factors ";
  return elements(descriptor) + ", " + op_name(descriptor.op) +
         fingerprint(detail, descriptor.detail);
}

// FNV-1a.
std::uint32_t hash(const void* data, std::size_t bytes, std::uint32_t seed = 2166136261U) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) seed = (seed ^ byte[i]) * 16777619U;
  return seed == 0 ? 1 : seed;
}

}  // namespace

std::uint32_t scale_fingerprint(const Reduction& reduction) {
  if (reduction.prescale == 1 && reduction.postscale == 1) return 0;
  const double factors[] = {reduction.prescale, reduction.postscale};
  return hash(factors, sizeof factors);
}

std::uint32_t counts_fingerprint(const std::size_t* counts, std::size_t ranks) {
  std::size_t same = 1;
  while (same < ranks && counts[same] == counts[0]) ++same;
  return same >= ranks ? 0 : hash(counts, ranks * sizeof *counts);
}

std::uint32_t joint_fingerprint(std::uint32_t one, std::uint32_t other) {
  if (one == 0 || other == 0) return one | other;
  const std::uint32_t both[] = {one, other};
  return hash(both, sizeof both);
}

std::string describe(const Descriptor& descriptor) {
  switch (descriptor.kind) {
    case OpKind::barrier:
      return "barrier()";
    case OpKind::allreduce:
      return "allreduce(" + reduced(descriptor) + ")";
    case OpKind::broadcast:
      return "broadcast(" + elements(descriptor) + ", root " + std::to_string(descriptor.detail) +
             ")";
    case OpKind::allgather:
      return "allgather(" + elements(descriptor) + " in all" +
             fingerprint("counts ", descriptor.detail) + ")";
    case OpKind::reducescatter:
      return "reducescatter(" + reduced(descriptor) + ")";
    case OpKind::alltoall:
      return std::string("alltoall(") + type_name(descriptor.type) + ")";
  }
  return "unknown operation";
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) {
    std::string decimals = std::to_string(1000 + time.count() % 1000).substr(1);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    text += '.';
    text += decimals;
  }
  return text + " s";
}

std::string counts_differ(std::size_t sender, std::uint64_t sent, std::size_t receiver,
                          std::uint64_t expected) {
  return "alltoall: rank " + std::to_string(sender) + " sends " + std::to_string(sent) +
         " elements to rank " + std::to_string(receiver) + ", which expects " +
         std::to_string(expected);
}

}  // namespace hvdrun
