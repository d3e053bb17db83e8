// The adaptive sum on GPUs. NCCL moves whole vectors between pairs of ranks, and both sides of a
// pair combine them with the same kernels. So all ranks have the same bits after the last of
// log2(ranks) rounds. 16-bit vectors are combined in float32 and rounded once, as on the CPU.
#include <array>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/gpu/nccl_run.h"

namespace hvdrun {
namespace {

// One part's memory: where its sum grows, and where another rank's arrives.
struct AdasumPart {
  const BufferPart* buffers;
  std::byte* own;
  std::byte* theirs;
};

bool is_16_bits(hvd::DataType type) { return element_size(type) == 2; }

}  // namespace

GpuTicket NcclCommunicator::adasum(const std::vector<BufferPart>& parts, const Reduction& reduction,
                                   const GpuCall& call) {
  const GpuKernels& kernel = kernels("adasum");
  Descriptor what;
  what.kind = OpKind::allreduce;
  what.type = reduction.type;
  what.op = reduction.op;
  for (const BufferPart& part : parts) what.count += part.count;
  if (what.count == 0) return 0;

  const bool widens = is_16_bits(reduction.type);
  const hvd::DataType work_type = widens ? hvd::DataType::float32 : reduction.type;
  const std::size_t width = element_size(work_type);
  const nccl::DataType moved = width == 8 ? nccl::float64 : nccl::float32;
  const auto type = static_cast<int>(work_type);
  const auto narrow_type = static_cast<int>(reduction.type);
  void* stream = nullptr;
  const std::vector<AdasumRound> rounds = adasum_rounds(rank_, size_);

  Scratch arrived(*this);
  Scratch wide(*this);  // 16-bit vectors as float32
  Scratch dots(*this);
  std::vector<AdasumPart> vectors;
  // On the stream, before the first exchange.
  const auto begin = [&] {
    stream = queue().get();
    auto* theirs = static_cast<std::byte*>(arrived.take(what.count * width));
    auto* own = widens ? static_cast<std::byte*>(wide.take(what.count * width)) : nullptr;
    dots.take(kernel.adasum_scratch() * sizeof(double));
    for (const BufferPart& part : parts) {
      if (part.count == 0) continue;
      auto* const place = widens ? own : static_cast<std::byte*>(part.output);
      vectors.push_back({&part, place, theirs});
      theirs += part.count * width;
      if (widens) {
        own += part.count * width;
        check_kernel(kernel.decompress(part.input, place, part.count, narrow_type, stream),
                     "decompress");
      }
      const void* const source = widens ? place : part.input;
      if (reduction.prescale != 1)
        check_kernel(kernel.scale(source, place, part.count, type, reduction.prescale, 1, stream),
                     "scale");
      else if (source != place)
        copy_on_stream(place, source, part.count * width);
    }
  };
  const auto exchange = [&](nccl::Comm comm, std::size_t number) {
    const AdasumRound& round = rounds[number];
    FirstBad result;
    if (round.from == rank_) {
      // Every rank has a group in every round. This one's moves a number from here to there.
      const AdasumPart& one = vectors.front();
      result.add(api().send(one.own, 1, moved, rank_, comm, queue().get()));
      result.add(api().receive(one.theirs, 1, moved, rank_, comm, queue().get()));
      return result.get();
    }
    for (const AdasumPart& part : vectors) {
      for (const int to : round.to)
        result.add(api().send(part.own, part.buffers->count, moved, to, comm, queue().get()));
      result.add(
          api().receive(part.theirs, part.buffers->count, moved, round.from, comm, queue().get()));
    }
    return result.get();
  };
  const auto combine = [&](std::size_t number) {
    const AdasumRound& round = rounds[number];
    if (round.from == rank_) return;
    auto* const sums = static_cast<double*>(dots.get());
    for (const AdasumPart& part : vectors) {
      const std::size_t count = part.buffers->count;
      const void* const first = round.first ? part.own : part.theirs;
      const void* const second = round.first ? part.theirs : part.own;
      check_kernel(kernel.adasum_dots(first, second, count, type, sums, stream), "adasum_dots");
      check_kernel(kernel.adasum_combine(first, second, part.own, count, type, sums, stream),
                   "adasum_combine");
    }
  };
  const auto finish = [&] {
    for (const AdasumPart& part : vectors) {
      const std::size_t count = part.buffers->count;
      if (reduction.postscale != 1)
        check_kernel(kernel.scale(part.own, part.own, count, type, reduction.postscale, 1, stream),
                     "scale");
      if (widens)
        check_kernel(kernel.compress(part.own, part.buffers->output, count, narrow_type, stream),
                     "compress");
    }
  };
  return run_rounds(
      rounds.size(), what, call,
      [&] {
        begin();
        if (rounds.empty()) finish();
      },
      exchange,
      [&](std::size_t number) {
        combine(number);
        if (number + 1 == rounds.size()) finish();
      });
}

}  // namespace hvdrun
