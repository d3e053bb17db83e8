// The operations of a communicator.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/gpu/gpu_error.h"
#include "worker/hvd/gpu/nccl_run.h"

namespace hvdrun {
namespace {

const std::byte* at(const void* memory, std::size_t elements, hvd::DataType type) {
  return static_cast<const std::byte*>(memory) + elements * element_size(type);
}
std::byte* at(void* memory, std::size_t elements, hvd::DataType type) {
  return static_cast<std::byte*>(memory) + elements * element_size(type);
}

bool all_equal(const std::size_t* counts, std::size_t ranks) {
  return std::adjacent_find(counts, counts + ranks, std::not_equal_to<>()) == counts + ranks;
}

constexpr auto kNothing = [] {};

}  // namespace

const GpuKernels& NcclCommunicator::kernels(const char* what) const {
  if (parts_.kernels == nullptr)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     std::string(what) + " on a GPU: " + parts_.no_kernels);
  return *parts_.kernels;
}

void NcclCommunicator::check_kernel(int result, const char* what) const {
  if (result == 0) return;
  const char* const text = parts_.kernels->error_text(result);
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   std::string(what) + ": " + (text != nullptr ? one_line(text) : "failed"));
}

void NcclCommunicator::copy_on_stream(void* to, const void* from, std::size_t bytes) {
  const cuda::Api& driver = parts_.device->api();
  check_cuda(driver,
             driver.copy_on_device(cuda::device_pointer(to), cuda::device_pointer(from), bytes,
                                   queue().get()),
             "cuMemcpyDtoDAsync");
}

nccl::RedOp NcclCommunicator::begin_op(const NcclReduction& plan, nccl::Comm comm,
                                       nccl::Result& result) const {
  if (!plan.premultiply) return plan.op;
  nccl::RedOp op = nccl::sum;
  std::array<std::byte, 8> scalar = plan.scalar;
  result = api().redop_create_premul_sum(&op, scalar.data(), plan.type, nccl::scalar_host, comm);
  return op;
}

void NcclCommunicator::end_op(const NcclReduction& plan, nccl::Comm comm, nccl::RedOp op) const {
  // NCCL has copied it into what it has queued.
  if (plan.premultiply) api().redop_destroy(op, comm);
}

void NcclCommunicator::finish(const NcclReduction& plan, const Reduction& reduction, void* output,
                              std::size_t count) {
  if (count == 0) return;
  if (plan.normalise)
    check_kernel(parts_.kernels->normalise_boolean(output, count, queue().get()), "normalise");
  if (plan.after != 1)
    check_kernel(parts_.kernels->scale(output, output, count, static_cast<int>(reduction.type),
                                       plan.after, 1, queue().get()),
                 "scale");
}

GpuTicket NcclCommunicator::allreduce(const void* input, void* output, std::size_t count,
                                      const Reduction& reduction, const GpuCall& call) {
  return allreduce({{input, output, count}}, reduction, call);
}

GpuTicket NcclCommunicator::allreduce(const std::vector<BufferPart>& parts,
                                      const Reduction& reduction, const GpuCall& call) {
  if (is_alone()) return lone_reduction(OpKind::allreduce, parts, reduction, call);
  if (reduction.op == hvd::ReduceOp::adasum) return adasum(parts, reduction, call);
  const NcclReduction plan = plan_reduction(reduction, size_);
  if (plan.ordered) return ordered_allreduce(parts, reduction, plan, call);
  if (plan.needs_kernels()) kernels("scale factors and booleans");
  Descriptor what;
  what.kind = OpKind::allreduce;
  for (const BufferPart& part : parts) what.count += part.count;
  if (what.count == 0) return 0;
  what.type = reduction.type;
  what.op = reduction.op;
  const auto each = [&](const auto& body) {
    for (const BufferPart& part : parts)
      if (part.count > 0) body(part);
  };
  return run(
      what, call,
      [&] {
        if (plan.before == 1) return;
        each([&](const BufferPart& part) {
          check_kernel(parts_.kernels->scale(part.input, part.output, part.count,
                                             static_cast<int>(reduction.type), plan.before, 1,
                                             queue().get()),
                       "scale");
        });
      },
      [&](nccl::Comm comm) {
        FirstBad result;
        nccl::Result made = nccl::success;
        const nccl::RedOp op = begin_op(plan, comm, made);
        if (made != nccl::success) return made;
        each([&](const BufferPart& part) {
          const void* const source = plan.before == 1 ? part.input : part.output;
          result.add(api().all_reduce(source, part.output, part.count, plan.type, op, comm,
                                      queue().get()));
        });
        end_op(plan, comm, op);
        return result.get();
      },
      [&] {
        each([&](const BufferPart& part) { finish(plan, reduction, part.output, part.count); });
      });
}

GpuTicket NcclCommunicator::broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                                      const GpuCall& call) {
  if (is_alone()) return lone_move(OpKind::broadcast, data, data, count, type, call);
  if (count == 0) return 0;
  Descriptor what;
  what.kind = OpKind::broadcast;
  what.count = count;
  what.type = type;
  what.detail = static_cast<std::uint32_t>(root);
  std::size_t moved = count;
  const nccl::DataType as = moved_type(type, moved);
  return run(
      what, call, kNothing,
      [&](nccl::Comm comm) {
        return api().broadcast(data, data, moved, as, root, comm, queue().get());
      },
      kNothing);
}

GpuTicket NcclCommunicator::allgather(const void* input, void* output, const std::size_t* counts,
                                      hvd::DataType type, const GpuCall& call) {
  if (is_alone()) return lone_move(OpKind::allgather, input, output, counts[0], type, call);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t total = sum_of(counts, ranks);
  if (total == 0) return 0;
  Descriptor what;
  what.kind = OpKind::allgather;
  what.count = total;
  what.type = type;
  return run(
      what, call, kNothing,
      [&](nccl::Comm comm) {
        std::size_t moved = counts[0];
        const nccl::DataType as = moved_type(type, moved);
        if (all_equal(counts, ranks))
          return api().all_gather(input, output, moved, as, comm, queue().get());
        FirstBad result;
        for (std::size_t rank = 0, first = 0; rank < ranks; first += counts[rank], ++rank) {
          moved = counts[rank];
          moved_type(type, moved);
          std::byte* const place = at(output, first, type);
          const bool own = rank == static_cast<std::size_t>(rank_);
          if (moved > 0)
            result.add(api().broadcast(own ? input : place, place, moved, as,
                                       static_cast<int>(rank), comm, queue().get()));
        }
        return result.get();
      },
      kNothing);
}

GpuTicket NcclCommunicator::reducescatter(const void* input, void* output,
                                          const std::size_t* counts, const Reduction& reduction,
                                          const GpuCall& call) {
  if (is_alone())
    return lone_reduction(OpKind::reducescatter, {{input, output, counts[0]}}, reduction, call);
  const NcclReduction plan = plan_reduction(reduction, size_);
  if (plan.ordered) return ordered_reducescatter(input, output, counts, reduction, plan, call);
  if (plan.needs_kernels()) kernels("scale factors and booleans");
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t total = sum_of(counts, ranks);
  if (total == 0) return 0;
  Descriptor what;
  what.kind = OpKind::reducescatter;
  what.count = total;
  what.type = reduction.type;
  what.op = reduction.op;
  const hvd::DataType type = reduction.type;
  const std::size_t own = counts[rank_];
  const bool equal = all_equal(counts, ranks);
  // NCCL may write the result where this rank's own part is read, and nowhere else in the input.
  const std::size_t bytes = total * element_size(type);
  const bool overlaps = output >= input && output < at(input, total, type) &&
                        output != at(input, sum_of(counts, static_cast<std::size_t>(rank_)), type);
  Scratch copy(*this);
  const void* source = input;
  return run(
      what, call,
      [&] {
        if (plan.before == 1 && !overlaps) return;
        source = copy.take(bytes);
        if (plan.before == 1) return copy_on_stream(copy.get(), input, bytes);
        check_kernel(parts_.kernels->scale(input, copy.get(), total, static_cast<int>(type),
                                           plan.before, 1, queue().get()),
                     "scale");
      },
      [&](nccl::Comm comm) {
        FirstBad result;
        nccl::Result made = nccl::success;
        const nccl::RedOp op = begin_op(plan, comm, made);
        if (made != nccl::success) return made;
        if (equal)
          result.add(api().reduce_scatter(source, output, own, plan.type, op, comm, queue().get()));
        for (std::size_t rank = 0, first = 0; !equal && rank < ranks; first += counts[rank], ++rank)
          if (counts[rank] > 0)
            result.add(api().reduce(at(source, first, type), output, counts[rank], plan.type, op,
                                    static_cast<int>(rank), comm, queue().get()));
        end_op(plan, comm, op);
        return result.get();
      },
      [&] { finish(plan, reduction, output, own); });
}

GpuTicket NcclCommunicator::alltoall(const void* input, const std::size_t* send_counts,
                                     void* output, const std::size_t* receive_counts,
                                     hvd::DataType type, const GpuCall& call) {
  if (is_alone()) return lone_move(OpKind::alltoall, input, output, send_counts[0], type, call);
  const auto ranks = static_cast<std::size_t>(size_);
  Descriptor what;
  what.kind = OpKind::alltoall;
  what.type = type;
  const std::size_t bytes = sum_of(send_counts, ranks) * element_size(type);
  Scratch copy(*this);
  const void* source = input;
  return run(
      what, call,
      [&] {
        // NCCL's receives overwrite what its sends have not read yet.
        if (input != output || bytes == 0) return;
        source = copy.take(bytes);
        copy_on_stream(copy.get(), input, bytes);
      },
      [&](nccl::Comm comm) {
        FirstBad result;
        std::size_t sent = 0;
        std::size_t received = 0;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          std::size_t out = send_counts[rank];
          std::size_t in = receive_counts[rank];
          const nccl::DataType as = moved_type(type, out);
          moved_type(type, in);
          const int peer = static_cast<int>(rank);
          if (out > 0)
            result.add(api().send(at(source, sent, type), out, as, peer, comm, queue().get()));
          if (in > 0)
            result.add(
                api().receive(at(output, received, type), in, as, peer, comm, queue().get()));
          sent += send_counts[rank];
          received += receive_counts[rank];
        }
        return result.get();
      },
      kNothing);
}

void NcclCommunicator::barrier(const GpuCall& call) {
  if (is_alone()) return wait(lone_barrier(call), call.timeout);
  Scratch word(*this);
  const GpuTicket ticket = run(
      Descriptor{}, call, [&] { word.take(sizeof(std::int32_t)); },
      [&](nccl::Comm comm) {
        return api().all_reduce(word.get(), word.get(), 1, nccl::int32, nccl::max, comm,
                                queue().get());
      },
      kNothing);
  wait(ticket, call.timeout);
}

}  // namespace hvdrun
