// The operations of a communicator of one rank: copies and our kernels on its stream, and NCCL is
// not called. NCCL 2.28 leaves the tail out of an average, or of a sum with a factor, of one rank.
// The operations' order with the caller's stream, their tickets and their times are those of all
// operations.
#include "worker/hvd/gpu/lone_plan.h"
#include "worker/hvd/gpu/nccl_run.h"

namespace hvdrun {

// `body` puts on the stream what there is to do.
template <class Body>
GpuTicket NcclCommunicator::run_alone(const Descriptor& what, const GpuCall& call, Body&& body) {
  return run_rounds(
      0, what, call, body, [](nccl::Comm, std::size_t) { return nccl::success; },
      [](std::size_t) {});
}

GpuTicket NcclCommunicator::lone_reduction(OpKind kind, const std::vector<BufferPart>& parts,
                                           const Reduction& reduction, const GpuCall& call) {
  const LoneReduction plan = plan_lone_reduction(reduction);
  if (plan.needs_kernels()) kernels("scale factors and booleans");
  Descriptor what;
  what.kind = kind;
  what.type = reduction.type;
  what.op = reduction.op;
  for (const BufferPart& part : parts) what.count += part.count;
  if (what.count == 0) return 0;
  const auto type = static_cast<int>(reduction.type);
  return run_alone(what, call, [&] {
    for (const BufferPart& part : parts) {
      if (part.count == 0) continue;
      if (plan.before != 1 || plan.after != 1)
        check_kernel(parts_.kernels->scale(part.input, part.output, part.count, type, plan.before,
                                           plan.after, queue().get()),
                     "scale");
      else if (part.input != part.output)
        copy_on_stream(part.output, part.input, part.count * element_size(reduction.type));
      if (plan.normalise)
        check_kernel(parts_.kernels->normalise_boolean(part.output, part.count, queue().get()),
                     "normalise");
    }
  });
}

GpuTicket NcclCommunicator::lone_move(OpKind kind, const void* input, void* output,
                                      std::size_t count, hvd::DataType type, const GpuCall& call) {
  if (count == 0) return 0;
  Descriptor what;
  what.kind = kind;
  what.count = count;
  what.type = type;
  return run_alone(what, call, [&] {
    if (input != output) copy_on_stream(output, input, count * element_size(type));
  });
}

GpuTicket NcclCommunicator::lone_barrier(const GpuCall& call) {
  return run_alone(Descriptor{}, call, [] {});
}

}  // namespace hvdrun
