#include "worker/comm/shm_communicator.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "worker/comm/meeting.h"
#include "worker/comm/reduce.h"

namespace hvdrun {
namespace {

constexpr std::size_t kChunkBytes = 256U << 10;
constexpr std::size_t kSlots = 2;
constexpr std::size_t kLineBytes = 64;
// Up to here (all ranks together) reducing everything everywhere costs less than a second barrier.
constexpr std::size_t kSmallBytes = 64U << 10;

class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(std::shared_ptr<const Mapping> mapping, const ShmOptions& options)
      : mapping_(std::move(mapping)),
        rank_(static_cast<std::size_t>(options.rank)),
        size_(static_cast<std::size_t>(options.size)),
        slots_(mapping_->data() + Meeting::control_bytes(size_)),
        meeting_(mapping_->data(), rank_, size_, options.may_spin),
        sources_(size_) {
    assert(mapping_->size() >= shm_segment_bytes(size_));
  }

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(size_); }

  void allreduce(const void* input, void* output, std::size_t count, hvd::DataType type,
                 hvd::ReduceOp op, const CallOptions& options) override;
  void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                 const CallOptions& options) override;
  void allgather(const void* input, void* output, std::size_t count, hvd::DataType type,
                 const CallOptions& options) override;
  void barrier(const CallOptions& options) override {
    meeting_.begin(Descriptor{.kind = OpKind::barrier}, options);
    meeting_.meet();
  }

  void abort(const hvd::Error& reason) override { meeting_.abort(reason); }
  void peer_gone(int rank, const hvd::Error& reason) override {
    if (rank >= 0 && rank < size() && rank != this->rank())
      meeting_.peer_gone(static_cast<std::size_t>(rank), reason);
  }

 private:
  // The staging slot of `rank` in the current stage.
  std::byte* slot(std::size_t rank) const {
    return slots_ + (rank * kSlots + stage_ % kSlots) * kChunkBytes;
  }
  void reduce_small(const std::byte* input, std::byte* output, std::size_t count,
                    hvd::DataType type, hvd::ReduceOp op);
  void reduce_chunk(const std::byte* input, std::byte* output, std::size_t count,
                    hvd::DataType type, hvd::ReduceOp op);

  const std::shared_ptr<const Mapping> mapping_;
  const std::size_t rank_;
  const std::size_t size_;
  std::byte* const slots_;
  Meeting meeting_;
  // Counts the uses of the slots, across operations. A stage is written before one meeting and read
  // after it; the stage after next writes the same slot, and begins only when all have arrived at
  // the meeting between, done with reading.
  std::uint64_t stage_ = 0;
  std::vector<const std::byte*> sources_;
};

void ShmCommunicator::allreduce(const void* input, void* output, std::size_t count,
                                hvd::DataType type, hvd::ReduceOp op, const CallOptions& options) {
  meeting_.begin(Descriptor{.count = count, .kind = OpKind::allreduce, .type = type, .op = op},
                 options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t width = element_size(type);
  const std::size_t chunk = kChunkBytes / width;
  if (count * width <= std::min(kSmallBytes / size_, kChunkBytes))
    return reduce_small(from, to, count, type, op);
  for (std::size_t done = 0; done < count; done += chunk)
    reduce_chunk(from + done * width, to + done * width, std::min(chunk, count - done), type, op);
}

void ShmCommunicator::reduce_small(const std::byte* input, std::byte* output, std::size_t count,
                                   hvd::DataType type, hvd::ReduceOp op) {
  const std::size_t bytes = count * element_size(type);
  const bool in_line = bytes <= kInlineBytes;
  if (!in_line) ++stage_;
  if (bytes > 0) std::memcpy(in_line ? meeting_.own_data() : slot(rank_), input, bytes);
  meeting_.meet();
  for (std::size_t rank = 0; rank < size_; ++rank)
    sources_[rank] = in_line ? meeting_.data_of(rank) : slot(rank);
  if (bytes > 0) reduce(sources_.data(), size_, count, type, op, output);
}

void ShmCommunicator::reduce_chunk(const std::byte* input, std::byte* output, std::size_t count,
                                   hvd::DataType type, hvd::ReduceOp op) {
  const std::size_t width = element_size(type);
  // Slices begin at cache lines: no line is written by two ranks.
  const std::size_t per_line = kLineBytes / width;
  const std::size_t slice = ((count + size_ - 1) / size_ + per_line - 1) / per_line * per_line;
  const auto begin_of = [&](std::size_t rank) { return std::min(count, rank * slice); };
  ++stage_;
  std::memcpy(slot(rank_), input, count * width);
  meeting_.meet();
  const std::size_t begin = begin_of(rank_);
  for (std::size_t rank = 0; rank < size_; ++rank) sources_[rank] = slot(rank) + begin * width;
  // Into our own slot: nobody else reads this slice of it before the next meeting.
  reduce(sources_.data(), size_, begin_of(rank_ + 1) - begin, type, op,
         slot(rank_) + begin * width);
  meeting_.meet();
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const std::size_t start = begin_of(rank) * width;
    std::memcpy(output + start, slot(rank) + start, begin_of(rank + 1) * width - start);
  }
}

void ShmCommunicator::broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                                const CallOptions& options) {
  meeting_.begin(Descriptor{.count = count,
                            .kind = OpKind::broadcast,
                            .type = type,
                            .root = static_cast<std::uint32_t>(root)},
                 options);
  auto* bytes = static_cast<std::byte*>(data);
  const auto source = static_cast<std::size_t>(root);
  const std::size_t total = count * element_size(type);
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(kChunkBytes, total - done);
    ++stage_;
    if (rank_ == source && size > 0) std::memcpy(slot(rank_), bytes + done, size);
    meeting_.meet();
    if (rank_ != source && size > 0) std::memcpy(bytes + done, slot(source), size);
    done += size;
  } while (done < total);
}

void ShmCommunicator::allgather(const void* input, void* output, std::size_t count,
                                hvd::DataType type, const CallOptions& options) {
  meeting_.begin(Descriptor{.count = count, .kind = OpKind::allgather, .type = type}, options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t total = count * element_size(type);
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(kChunkBytes, total - done);
    ++stage_;
    if (size > 0) std::memcpy(slot(rank_), from + done, size);
    meeting_.meet();
    for (std::size_t rank = 0; rank < size_ && size > 0; ++rank)
      std::memcpy(to + rank * total + done, slot(rank), size);
    done += size;
  } while (done < total);
}

}  // namespace

std::size_t shm_segment_bytes(std::size_t ranks) {
  return Meeting::control_bytes(ranks) + ranks * kSlots * kChunkBytes;
}

std::unique_ptr<Communicator> make_shm_communicator(std::shared_ptr<const Mapping> mapping,
                                                    const ShmOptions& options) {
  return std::make_unique<ShmCommunicator>(std::move(mapping), options);
}

}  // namespace hvdrun
