#include "worker/hvd/comm/shm/shm_communicator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/hvd/comm/reduce/copy.h"
#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/comm/shm/grouped_allreduce.h"
#include "worker/hvd/comm/shm/shm_alltoall.h"
#include "worker/hvd/comm/shm/staging.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {
namespace {

class ShmCommunicator final : public HostCommunicator {
 public:
  ShmCommunicator(std::shared_ptr<const Mapping> mapping, const ShmOptions& options)
      : staging_(std::move(mapping), options),
        meeting_(staging_.meeting()),
        rank_(staging_.rank()),
        size_(staging_.size()),
        sources_(size_),
        targets_(size_),
        grouped_(staging_),
        alltoall_(staging_) {}

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(size_); }

  void allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                 const CallOptions& options) override;
  void grouped_allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                         const CallOptions& options) override {
    grouped_.allreduce(parts, reduction, options);
  }
  void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                 const CallOptions& options) override;
  void allgather(const void* input, void* output, const std::size_t* counts, hvd::DataType type,
                 const CallOptions& options) override;
  void reducescatter(const void* input, void* output, const std::size_t* counts,
                     const Reduction& reduction, const CallOptions& options) override;
  void alltoall(const void* input, const std::size_t* send_counts, void* output,
                const std::size_t* receive_counts, hvd::DataType type,
                const CallOptions& options) override {
    const BufferRow row({input, nullptr, sum_of(send_counts, size_)}, element_size(type));
    alltoall_.alltoall(row, 0, send_counts, static_cast<std::byte*>(output), receive_counts, type,
                       options);
  }
  void alltoall_from(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                     void* output, const std::size_t* receive_counts, hvd::DataType type,
                     const CallOptions& options) override {
    alltoall_.alltoall(row, begin, send_counts, static_cast<std::byte*>(output), receive_counts,
                       type, options);
  }
  void barrier(const CallOptions& options) override {
    meeting_.begin(Descriptor{.kind = OpKind::barrier}, options);
    meeting_.meet();
  }

  void allgather_to(const void* input, const BufferRow& row, std::size_t begin,
                    const std::size_t* counts, hvd::DataType type,
                    const CallOptions& options) override;
  void compare(const Descriptor& operation, const CallOptions& options) override {
    meeting_.begin(operation, options);
    meeting_.meet();
  }
  void give_up(const hvd::Error& reason) override { meeting_.break_off(reason); }

  void abort(const hvd::Error& reason) override { meeting_.abort(reason); }
  void peer_gone(int rank, const hvd::Error& reason) override {
    if (rank >= 0 && rank < size() && rank != this->rank())
      meeting_.peer_gone(static_cast<std::size_t>(rank), reason);
  }
  bool await_others(std::chrono::milliseconds limit) override {
    return meeting_.await_others(limit);
  }
  void wake() override { meeting_.wake(); }

 private:
  static constexpr auto kEverybody = [](std::size_t /*rank*/) { return true; };

  // Slices begin at cache lines: no line is written by two ranks.
  struct Slices {
    std::size_t count;
    std::size_t each;
    std::size_t begin_of(std::size_t rank) const { return std::min(count, rank * each); }
    std::size_t count_of(std::size_t rank) const { return begin_of(rank + 1) - begin_of(rank); }
  };
  Slices slices(std::size_t count, std::size_t width) const {
    const std::size_t per_line = kLineBytes / width;
    return {count, ((count + size_ - 1) / size_ + per_line - 1) / per_line * per_line};
  }

  // Small or of two ranks: everybody reduces everything.
  void reduce_whole(const std::byte* input, std::byte* output, std::size_t count,
                    const Reduction& reduction, bool in_line);
  void reduce_shared(std::size_t count, const Reduction& reduction);
  void fill_slices(const std::byte* input, std::size_t count, std::size_t width);
  void reduce_slices(const std::byte* input, std::byte* output, std::size_t count,
                     const Reduction& reduction);
  template <class Put>
  void gather(const void* input, const std::size_t* counts, hvd::DataType type,
              const CallOptions& options, const Put& put);

  Staging staging_;
  Meeting& meeting_;
  const std::size_t rank_;
  const std::size_t size_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  GroupedAllreduce grouped_;
  ShmAlltoall alltoall_;
};

void ShmCommunicator::allreduce(const void* input, void* output, std::size_t count,
                                const Reduction& reduction, const CallOptions& options) {
  meeting_.begin(Descriptor{.count = count,
                            .kind = OpKind::allreduce,
                            .type = reduction.type,
                            .op = reduction.op,
                            .detail = scale_fingerprint(reduction)},
                 options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t width = element_size(reduction.type);
  const std::size_t total = count * width;
  if (travels_inline(total)) {
    std::copy_n(from, total, meeting_.own_data());
    meeting_.meet();
    return reduce_whole(from, to, count, reduction, true);
  }
  const bool whole = each_reduces_whole(total, size_);
  const std::size_t step = stage_bytes(size_);
  const Staging::Opening opening = staging_.open(staging_.asks(total), from, total, to, total);
  const auto size_at = [&](std::size_t done) { return std::min(step, total - done); };
  const bool shared = staging_.move(
      opening, step, kEverybody,
      [&](std::size_t done) {
        if (whole)
          copy_bytes(staging_.slot(rank_), from + done, size_at(done));
        else
          fill_slices(from + done, size_at(done) / width, width);
      },
      [&] { return total; },
      [&](std::size_t done) {
        if (whole)
          reduce_whole(from + done, to + done, size_at(done) / width, reduction, false);
        else
          reduce_slices(from + done, to + done, size_at(done) / width, reduction);
      });
  if (shared) reduce_shared(count, reduction);
}

// Each rank reduces one slice of all inputs into all outputs.
void ShmCommunicator::reduce_shared(std::size_t count, const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  const Slices parts = slices(count, width);
  const std::size_t begin = parts.begin_of(rank_) * width;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const Staging::Places& places = staging_.places(rank);
    sources_[rank] = staging_.mapped(rank, places.input, count * width) + begin;
    targets_[rank] = staging_.mapped(rank, places.output, count * width) + begin;
  }
  if (const std::size_t size = parts.count_of(rank_); size > 0)
    reduce_buffers(sources_.data(), size_, size, reduction, targets_.data(), size_);
  meeting_.meet();
}

void ShmCommunicator::reduce_whole(const std::byte* input, std::byte* output, std::size_t count,
                                   const Reduction& reduction, bool in_line) {
  for (std::size_t rank = 0; rank < size_; ++rank)
    sources_[rank] = rank == rank_ ? input : in_line ? meeting_.data_of(rank) : staging_.slot(rank);
  if (count > 0) reduce_buffers(sources_.data(), size_, count, reduction, &output, 1);
}

// Nobody reads our own slice of our own input but we.
void ShmCommunicator::fill_slices(const std::byte* input, std::size_t count, std::size_t width) {
  const Slices parts = slices(count, width);
  std::byte* const slot = staging_.slot(rank_);
  const std::size_t begin = parts.begin_of(rank_) * width;
  const std::size_t end = parts.begin_of(rank_ + 1) * width;
  copy_bytes(slot, input, begin);
  copy_bytes(slot + end, input + end, count * width - end);
}

void ShmCommunicator::reduce_slices(const std::byte* input, std::byte* output, std::size_t count,
                                    const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  const Slices parts = slices(count, width);
  const std::size_t begin = parts.begin_of(rank_) * width;
  for (std::size_t rank = 0; rank < size_; ++rank)
    sources_[rank] = (rank == rank_ ? input : staging_.slot(rank)) + begin;
  // Into our own slot: nobody else reads this slice of it before the next meeting.
  std::byte* const outputs[] = {staging_.slot(rank_) + begin, output + begin};
  reduce_buffers(sources_.data(), size_, parts.count_of(rank_), reduction, outputs, 2);
  meeting_.meet();
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const std::size_t start = parts.begin_of(rank) * width;
    copy_bytes(output + start, staging_.slot(rank) + start, parts.count_of(rank) * width);
  }
}

void ShmCommunicator::broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                                const CallOptions& options) {
  meeting_.begin(Descriptor{.count = count,
                            .kind = OpKind::broadcast,
                            .type = type,
                            .detail = static_cast<std::uint32_t>(root)},
                 options);
  auto* bytes = static_cast<std::byte*>(data);
  const auto source = static_cast<std::size_t>(root);
  const bool is_source = rank_ == source;
  const std::size_t total = count * element_size(type);
  const Copy copy = copy_for(total * (size_ - 1));
  const Staging::Opening opening =
      staging_.open(staging_.asks(total), is_source ? bytes : nullptr, total, nullptr, 0);
  const auto size_at = [&](std::size_t done) { return std::min(kChunkBytes, total - done); };
  const bool shared = staging_.move(
      opening, kChunkBytes, [&](std::size_t rank) { return rank == source; },
      [&](std::size_t done) {
        if (is_source) copy_bytes(staging_.slot(source), bytes + done, size_at(done));
      },
      [&] { return total; },
      [&](std::size_t done) {
        if (!is_source) copy(bytes + done, staging_.slot(source), size_at(done));
      });
  if (!shared) return;
  if (!is_source) copy(bytes, staging_.mapped(source, staging_.places(source).input, total), total);
  meeting_.meet();  // the root may change its data from here on
}

void ShmCommunicator::allgather(const void* input, void* output, const std::size_t* counts,
                                hvd::DataType type, const CallOptions& options) {
  const std::size_t width = element_size(type);
  auto* const to = static_cast<std::byte*>(output);
  // In place the own part is there already, and not staged whole yet.
  const bool in_place = to + sum_of(counts, rank_) * width == input;
  gather(input, counts, type, options,
         [&](std::size_t rank, std::size_t at, const std::byte* from, std::size_t bytes,
             const Copy& copy) {
           if (rank != rank_ || !in_place) copy(to + at, from, bytes);
         });
}

void ShmCommunicator::allgather_to(const void* input, const BufferRow& row, std::size_t begin,
                                   const std::size_t* counts, hvd::DataType type,
                                   const CallOptions& options) {
  const std::size_t width = element_size(type);
  gather(input, counts, type, options,
         [&](std::size_t rank, std::size_t at, const std::byte* from, std::size_t bytes,
             const Copy& copy) {
           if (rank != rank_) row.copy_outputs(begin + at / width, bytes / width, from, copy);
         });
}

// put(rank, at, from, bytes, copy) for what has come of a rank; `at` counts bytes of all ranks'.
template <class Put>
void ShmCommunicator::gather(const void* input, const std::size_t* counts, hvd::DataType type,
                             const CallOptions& options, const Put& put) {
  meeting_.begin(Descriptor{.count = sum_of(counts, size_),
                            .kind = OpKind::allgather,
                            .type = type,
                            .detail = counts_fingerprint(counts, size_)},
                 options);
  const auto* from = static_cast<const std::byte*>(input);
  const std::size_t width = element_size(type);
  const std::size_t own = counts[rank_] * width;
  const std::size_t most = *std::max_element(counts, counts + size_) * width;
  const Copy copy = copy_for(sum_of(counts, size_) * width * size_);
  const Staging::Opening opening = staging_.open(staging_.asks(most), from, own, nullptr, 0);
  const auto size_at = [&](std::size_t rank, std::size_t done) {
    const std::size_t total = counts[rank] * width;
    return std::min(kChunkBytes, total - std::min(total, done));
  };
  const bool shared = staging_.move(
      opening, kChunkBytes, [&](std::size_t rank) { return counts[rank] > 0; },
      [&](std::size_t done) {
        copy_bytes(staging_.slot(rank_), from + done, size_at(rank_, done));
      },
      [&] { return most; },
      [&](std::size_t done) {
        std::size_t begin = 0;
        for (std::size_t rank = 0; rank < size_; ++rank) {
          put(rank, begin + done, staging_.slot(rank), size_at(rank, done), copy);
          begin += counts[rank] * width;
        }
      });
  if (!shared) return;
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const std::size_t bytes = counts[rank] * width;
    if (bytes == 0) continue;
    const std::byte* const source =
        rank == rank_ ? from : staging_.mapped(rank, staging_.places(rank).input, bytes);
    put(rank, begin, source, bytes, copy);
    begin += bytes;
  }
  meeting_.meet();
}

void ShmCommunicator::reducescatter(const void* input, void* output, const std::size_t* counts,
                                    const Reduction& reduction, const CallOptions& options) {
  meeting_.begin(Descriptor{.count = sum_of(counts, size_),
                            .kind = OpKind::reducescatter,
                            .type = reduction.type,
                            .op = reduction.op,
                            .detail = joint_fingerprint(counts_fingerprint(counts, size_),
                                                        scale_fingerprint(reduction))},
                 options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t width = element_size(reduction.type);
  const std::size_t step = staging_.piece_bytes() / width * width;
  const std::size_t most = *std::max_element(counts, counts + size_) * width;
  const std::size_t all = sum_of(counts, size_) * width;
  const std::size_t own_begin = sum_of(counts, rank_) * width;
  // In place a rank's result would overwrite what others, or itself, still read.
  const bool in_place = from == to;
  const Staging::Opening opening =
      staging_.open(staging_.asks(all), in_place ? nullptr : from, all, nullptr, 0);
  const auto size_at = [&](std::size_t rank, std::size_t done) {
    return std::min(step, counts[rank] * width - std::min(counts[rank] * width, done));
  };
  const bool shared = staging_.move(
      opening, step, kEverybody,
      [&](std::size_t done) {
        std::size_t begin = 0;
        for (std::size_t reader = 0; reader < size_; ++reader) {
          if (in_place || reader != rank_)
            copy_bytes(staging_.piece(rank_, reader), from + begin + done, size_at(reader, done));
          begin += counts[reader] * width;
        }
      },
      [&] { return most; },
      [&](std::size_t done) {
        for (std::size_t rank = 0; rank < size_; ++rank)
          sources_[rank] =
              rank == rank_ && !in_place ? from + own_begin + done : staging_.piece(rank, rank_);
        std::byte* const target = to + done;
        if (const std::size_t count = size_at(rank_, done) / width; count > 0)
          reduce_buffers(sources_.data(), size_, count, reduction, &target, 1);
      });
  if (!shared) return;
  for (std::size_t rank = 0; rank < size_; ++rank)
    sources_[rank] = staging_.mapped(rank, staging_.places(rank).input, all) + own_begin;
  if (counts[rank_] > 0) reduce_buffers(sources_.data(), size_, counts[rank_], reduction, &to, 1);
  meeting_.meet();
}

}  // namespace

std::size_t shm_segment_bytes(std::size_t ranks) { return Staging::mapping_bytes(ranks); }

std::unique_ptr<HostCommunicator> make_shm_communicator(std::shared_ptr<const Mapping> mapping,
                                                        const ShmOptions& options) {
  return std::make_unique<ShmCommunicator>(std::move(mapping), options);
}

}  // namespace hvdrun
