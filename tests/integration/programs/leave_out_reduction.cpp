// A library to preload into ranks: one of the allreduces that DistributedOptimizer queues changes
// nothing, LEAVE_OUT_REDUCTION says which, counted from 0. Tests that compare trainings show with
// it that they notice one missing reduction; the product has no such switch.
#include <atomic>
#include <cstddef>
#include <cstdlib>

#include <dlfcn.h>
#include <hvd/hvd.h>

namespace hvd {

using Allreduce = Handle (*)(const void*, void*, std::size_t, DataType, ReduceOp,
                             const ScaleFactors&, const OperationOptions&);

// Before the library's own for whoever calls it. All ranks leave out the same one: each still takes
// part, with a copy that is thrown away.
Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                       ReduceOp op, const ScaleFactors& scale, const OperationOptions& options) {
  static const auto real = reinterpret_cast<Allreduce>(
      ::dlsym(RTLD_NEXT,
              "_ZN3hvd15allreduce_asyncEPKvPvmNS_8DataTypeENS_8ReduceOpERKNS_12Scale"
              "FactorsERKNS_16OperationOptionsE"));
  static std::atomic<long> next{0};
  static const long left_out = std::atol(std::getenv("LEAVE_OUT_REDUCTION"));
  if (input != output || next++ != left_out)
    return real(input, output, count, type, op, scale, options);
  // Never freed: the operation ends after this call.
  auto* const copy = new char[count * 8];
  return real(input, copy, count, type, op, scale, options);
}

}  // namespace hvd
