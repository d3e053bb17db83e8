#include "worker/hvd/comm/shm/grouped_allreduce.h"

#include <algorithm>

#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/comm/reduce/copy.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {

void GroupedAllreduce::allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                                 const CallOptions& options) {
  const std::size_t width = element_size(reduction.type);
  const BufferRow row(parts, width);
  const std::size_t total = row.count() * width;
  staging_.meeting().begin(Descriptor{.count = row.count(),
                                      .kind = OpKind::allreduce,
                                      .type = reduction.type,
                                      .op = reduction.op,
                                      .detail = scale_fingerprint(reduction)},
                           options);
  const bool whole = each_reduces_whole(total, size_);
  const std::size_t step = stage_bytes(size_);
  const auto count_at = [&](std::size_t done) { return std::min(step, total - done) / width; };
  const Staging::Opening opening = staging_.open(false, nullptr, 0, nullptr, 0);
  staging_.move(
      opening, step, [](std::size_t /*rank*/) { return true; },
      [&](std::size_t done) {
        row.copy_inputs(done / width, count_at(done), staging_.slot(rank_));
      },
      [&] { return total; },
      [&](std::size_t done) {
        if (whole)
          reduce_whole(row, reduction, done / width, count_at(done));
        else
          reduce_slices(row, reduction, done / width, count_at(done));
      });
}

void GroupedAllreduce::reduce_whole(const BufferRow& row, const Reduction& reduction,
                                    std::size_t begin, std::size_t count) {
  row.visit(begin, count, [&](std::size_t at, const BufferPart& part) {
    for (std::size_t rank = 0; rank < size_; ++rank)
      sources_[rank] = rank == rank_ ? static_cast<const std::byte*>(part.input)
                                     : staging_.slot(rank) + at * row.width();
    auto* output = static_cast<std::byte*>(part.output);
    reduce_buffers(sources_.data(), size_, part.count, reduction, &output, 1);
  });
}

// Each rank reduces a slice, for itself and into its own slot for the others.
void GroupedAllreduce::reduce_slices(const BufferRow& row, const Reduction& reduction,
                                     std::size_t begin, std::size_t count) {
  const std::size_t per_line = kLineBytes / row.width();
  const std::size_t each = ((count + size_ - 1) / size_ + per_line - 1) / per_line * per_line;
  const auto begin_of = [&](std::size_t rank) { return std::min(count, rank * each); };
  const auto visit_slice = [&](std::size_t rank, const auto& visit) {
    const std::size_t first = begin_of(rank);
    row.visit(
        begin + first, begin_of(rank + 1) - first,
        [&](std::size_t at, const BufferPart& part) { visit((first + at) * row.width(), part); });
  };
  visit_slice(rank_, [&](std::size_t at, const BufferPart& part) {
    for (std::size_t rank = 0; rank < size_; ++rank)
      sources_[rank] =
          rank == rank_ ? static_cast<const std::byte*>(part.input) : staging_.slot(rank) + at;
    std::byte* const outputs[] = {staging_.slot(rank_) + at, static_cast<std::byte*>(part.output)};
    reduce_buffers(sources_.data(), size_, part.count, reduction, outputs, 2);
  });
  staging_.meeting().meet();
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    visit_slice(rank, [&](std::size_t at, const BufferPart& part) {
      copy_bytes(static_cast<std::byte*>(part.output), staging_.slot(rank) + at,
                 part.count * row.width());
    });
  }
}

}  // namespace hvdrun
