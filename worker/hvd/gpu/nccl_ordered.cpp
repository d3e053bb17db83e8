// min and max of floating-point numbers. NCCL ignores a NaN there, and we do not. Our kernels make
// integers of the numbers, in the same order, with a NaN as the largest for max and the smallest
// for min. NCCL reduces these, and kernels make numbers of them again. The factors are in the
// kernels, so that 16-bit numbers are rounded once, as on the CPU. Over the fakes only: never run
// on a GPU.
//
// The integers of float32 and float64 fit where the results go. Those of 16-bit numbers are int32,
// as NCCL reduces no integers of 16 bits. What is to be scattered must not be changed. These pass
// through memory of GpuParts::key_bytes at most, in as many rounds as that takes.
#include <algorithm>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/gpu/nccl_run.h"

namespace hvdrun {
namespace {

constexpr const char* kWhat = "min and max of floating-point numbers";

std::size_t key_size(hvd::DataType type) { return type == hvd::DataType::float64 ? 8 : 4; }

}  // namespace

GpuTicket NcclCommunicator::ordered_allreduce(const std::vector<BufferPart>& parts,
                                              const Reduction& reduction, const NcclReduction& plan,
                                              const GpuCall& call) {
  const GpuKernels& kernel = kernels(kWhat);
  Descriptor what;
  what.kind = OpKind::allreduce;
  what.type = reduction.type;
  what.op = reduction.op;
  std::vector<std::size_t> counts;
  for (const BufferPart& part : parts) {
    counts.push_back(part.count);
    what.count += part.count;
  }
  if (what.count == 0) return 0;

  const std::size_t width = element_size(reduction.type);
  const std::size_t wide = key_size(reduction.type);
  const bool in_output = width == wide;
  const auto type = static_cast<int>(reduction.type);
  const int nan_is_largest = plan.op == nccl::max ? 1 : 0;
  const std::size_t most = in_output ? what.count : std::min(what.count, parts_.key_bytes / wide);
  const std::vector<std::vector<KeyPiece>> rounds = key_rounds(counts, most);
  Scratch scratch(*this);
  const auto keys_of = [&](const KeyPiece& piece) {
    return in_output ? static_cast<std::byte*>(parts[piece.part].output) + piece.begin * width
                     : static_cast<std::byte*>(scratch.get()) + piece.at * wide;
  };
  const auto order = [&](std::size_t round) {
    for (const KeyPiece& piece : rounds[round])
      check_kernel(
          kernel.order(static_cast<const std::byte*>(parts[piece.part].input) + piece.begin * width,
                       keys_of(piece), piece.count, type, plan.before, nan_is_largest,
                       queue().get()),
          "order");
  };
  return run_rounds(
      rounds.size(), what, call,
      [&] {
        if (!in_output) scratch.take(most * wide);
        order(0);
      },
      [&](nccl::Comm comm, std::size_t round) {
        FirstBad result;
        const auto reduce = [&](std::byte* keys, std::size_t count) {
          result.add(api().all_reduce(keys, keys, count, plan.type, plan.op, comm, queue().get()));
        };
        const KeyPiece& last = rounds[round].back();
        if (!in_output)
          reduce(keys_of(rounds[round].front()), last.at + last.count);
        else
          for (const KeyPiece& piece : rounds[round]) reduce(keys_of(piece), piece.count);
        return result.get();
      },
      [&](std::size_t round) {
        for (const KeyPiece& piece : rounds[round])
          check_kernel(kernel.restore(
                           keys_of(piece),
                           static_cast<std::byte*>(parts[piece.part].output) + piece.begin * width,
                           piece.count, type, plan.after, queue().get()),
                       "restore");
        if (round + 1 < rounds.size()) order(round + 1);
      });
}

// In place, a round's results are written where only this round and those before it have read: the
// input's elements up to there, of one rank's part or another's.
GpuTicket NcclCommunicator::ordered_reducescatter(const void* input, void* output,
                                                  const std::size_t* counts,
                                                  const Reduction& reduction,
                                                  const NcclReduction& plan, const GpuCall& call) {
  const GpuKernels& kernel = kernels(kWhat);
  const std::vector<std::size_t> all(counts, counts + size_);
  Descriptor what;
  what.kind = OpKind::reducescatter;
  what.type = reduction.type;
  what.op = reduction.op;
  what.count = sum_of(counts, all.size());
  if (what.count == 0) return 0;

  const std::size_t width = element_size(reduction.type);
  const std::size_t wide = key_size(reduction.type);
  const auto type = static_cast<int>(reduction.type);
  const int nan_is_largest = plan.op == nccl::max ? 1 : 0;
  const std::size_t largest = *std::max_element(all.begin(), all.end());
  const std::size_t each = scattered_each(all, parts_.key_bytes / wide);
  const std::size_t rounds = (largest + each - 1) / each;
  const auto own = static_cast<std::size_t>(rank_);
  Scratch scratch(*this);
  const auto count_of = [&](std::size_t rank, std::size_t round) {
    return std::min(each, all[rank] - std::min(all[rank], round * each));
  };
  // Each rank's elements of a round: where their keys stand. body(rank, place, count)
  const auto for_ranks = [&](std::size_t round, const auto& body) {
    auto* place = static_cast<std::byte*>(scratch.get());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::size_t count = count_of(rank, round);
      if (count > 0) body(rank, place, count);
      place += count * wide;
    }
  };
  const auto order_from = [&](std::size_t first, std::byte* place, std::size_t count) {
    check_kernel(kernel.order(static_cast<const std::byte*>(input) + first * width, place, count,
                              type, plan.before, nan_is_largest, queue().get()),
                 "order");
  };
  const auto order = [&](std::size_t round) {
    if (rounds == 1) return order_from(0, static_cast<std::byte*>(scratch.get()), what.count);
    for_ranks(round, [&](std::size_t rank, std::byte* place, std::size_t count) {
      order_from(sum_of(counts, rank) + round * each, place, count);
    });
  };
  return run_rounds(
      rounds, what, call,
      [&] {
        scratch.take(std::min(what.count, each * all.size()) * wide);
        order(0);
      },
      [&](nccl::Comm comm, std::size_t round) {
        FirstBad result;
        const std::size_t count = count_of(0, round);
        bool equal = true;
        for (std::size_t rank = 1; rank < all.size(); ++rank)
          equal = equal && count_of(rank, round) == count;
        if (equal) {
          auto* const keys = static_cast<std::byte*>(scratch.get());
          result.add(api().reduce_scatter(keys, keys + own * count * wide, count, plan.type,
                                          plan.op, comm, queue().get()));
          return result.get();
        }
        for_ranks(round, [&](std::size_t rank, std::byte* place, std::size_t size) {
          result.add(api().reduce(place, place, size, plan.type, plan.op, static_cast<int>(rank),
                                  comm, queue().get()));
        });
        return result.get();
      },
      [&](std::size_t round) {
        for_ranks(round, [&](std::size_t rank, std::byte* place, std::size_t count) {
          if (rank != own) return;
          check_kernel(kernel.restore(place, static_cast<std::byte*>(output) + round * each * width,
                                      count, type, plan.after, queue().get()),
                       "restore");
        });
        if (round + 1 < rounds) order(round + 1);
      });
}

}  // namespace hvdrun
