#include "worker/comm/shm_communicator.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
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
constexpr std::size_t kPairBytes = 128U << 10;  // of a chunk, of two ranks
// From here on it pays to ask first whether all buffers are shared, which is a meeting of its own.
constexpr std::size_t kSharedBytes = kChunkBytes;
// The counts of an alltoall travel through a slot.
static_assert(kMaxShmRanks * sizeof(std::uint64_t) <= kChunkBytes);
// A slot is cut into a piece for each rank.
static_assert(kMaxShmRanks * kLineBytes <= kChunkBytes);

std::size_t sum_of(const std::size_t* counts, std::size_t ranks) {
  std::size_t sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) sum += counts[rank];
  return sum;
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(std::shared_ptr<const Mapping> mapping, const ShmOptions& options)
      : mapping_(std::move(mapping)),
        rank_(static_cast<std::size_t>(options.rank)),
        size_(static_cast<std::size_t>(options.size)),
        slots_(mapping_->data() + Meeting::control_bytes(size_)),
        meeting_(mapping_->data(), rank_, size_, options.may_spin),
        memory_(options.memory),
        sources_(size_),
        targets_(size_),
        places_(size_),
        begins_(size_) {
    assert(size_ <= kMaxShmRanks);
    assert(mapping_->size() >= shm_segment_bytes(size_));
  }

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(size_); }

  void allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                 const CallOptions& options) override;
  void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                 const CallOptions& options) override;
  void allgather(const void* input, void* output, const std::size_t* counts, hvd::DataType type,
                 const CallOptions& options) override;
  void reducescatter(const void* input, void* output, const std::size_t* counts,
                     const Reduction& reduction, const CallOptions& options) override;
  void alltoall(const void* input, const std::size_t* send_counts, void* output,
                const std::size_t* receive_counts, hvd::DataType type,
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
  // The part of `rank`'s slot that is meant for `reader`, of piece_bytes().
  std::byte* piece(std::size_t rank, std::size_t reader) const {
    return slot(rank) + reader * piece_bytes();
  }
  std::size_t piece_bytes() const { return kChunkBytes / size_ / kLineBytes * kLineBytes; }

  // What a rank says of its buffers before a large operation.
  struct Places {
    SharedPlace input;
    SharedPlace output;
  };
  static_assert(sizeof(Places) <= kInlineBytes);

  // Exchanges places_ in a meeting of its own. False, and nothing has happened, when nobody has
  // shared memory, or when the buffers are too small for it to pay.
  bool meet_places(const void* input, std::size_t input_bytes, const void* output,
                   std::size_t output_bytes);
  // Every rank's input (and output) is shared.
  bool all_inputs() const {
    return std::all_of(places_.begin(), places_.end(),
                       [](const Places& p) { return p.input.id != 0; });
  }
  // The same, where ranks without elements have nothing to share.
  bool all_inputs_of(const std::size_t* counts) const {
    for (std::size_t rank = 0; rank < size_; ++rank)
      if (counts[rank] > 0 && places_[rank].input.id == 0) return false;
    return true;
  }
  bool all_outputs() const {
    return std::all_of(places_.begin(), places_.end(),
                       [](const Places& p) { return p.output.id != 0; });
  }
  // Where `rank`'s buffer is in this process; whoever cannot map it tells the others.
  std::byte* mapped(std::size_t rank, const SharedPlace& place, std::size_t bytes);
  void reduce_shared(std::size_t count, const Reduction& reduction);

  void reduce_small(const std::byte* input, std::byte* output, std::size_t count,
                    const Reduction& reduction);
  void reduce_chunk(const std::byte* input, std::byte* output, std::size_t count,
                    const Reduction& reduction);
  // Throws when the ranks do not agree; returns the largest count of all pairs, and puts where our
  // part begins in each rank's input into begins_.
  std::size_t agree_on_counts(const std::size_t* send_counts, const std::size_t* receive_counts);

  const std::shared_ptr<const Mapping> mapping_;
  const std::size_t rank_;
  const std::size_t size_;
  std::byte* const slots_;
  Meeting meeting_;
  // Counts the uses of the slots, across operations. A stage is written before one meeting and read
  // after it; the stage after next writes the same slot, and begins only when all have arrived at
  // the meeting between, done with reading.
  std::uint64_t stage_ = 0;
  const std::shared_ptr<SharedMemory> memory_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  std::vector<Places> places_;
  std::vector<std::size_t> begins_;
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
  const std::size_t chunk = kChunkBytes / width;
  if (count * width <= std::min(kSmallBytes / size_, kChunkBytes))
    return reduce_small(from, to, count, reduction);
  if (meet_places(input, count * width, output, count * width) && all_inputs() && all_outputs())
    return reduce_shared(count, reduction);
  if (size_ == 2) {
    // Everything everywhere moves as much between two cores as halves do, with one meeting less.
    const std::size_t step = kPairBytes / width;
    for (std::size_t done = 0; done < count; done += step)
      reduce_small(from + done * width, to + done * width, std::min(step, count - done), reduction);
    return;
  }
  for (std::size_t done = 0; done < count; done += chunk)
    reduce_chunk(from + done * width, to + done * width, std::min(chunk, count - done), reduction);
}

bool ShmCommunicator::meet_places(const void* input, std::size_t input_bytes, const void* output,
                                  std::size_t output_bytes) {
  if (!memory_ || std::max(input_bytes, output_bytes) < kSharedBytes) return false;
  memory_->forget_released();
  Places own;
  if (input_bytes > 0) own.input = memory_->find(input, input_bytes);
  if (output_bytes > 0) own.output = memory_->find(output, output_bytes);
  std::memcpy(meeting_.own_data(), &own, sizeof own);
  meeting_.meet();
  for (std::size_t rank = 0; rank < size_; ++rank)
    std::memcpy(&places_[rank], meeting_.data_of(rank), sizeof(Places));
  return true;
}

std::byte* ShmCommunicator::mapped(std::size_t rank, const SharedPlace& place, std::size_t bytes) {
  try {
    return memory_->map(rank, place, bytes);
  } catch (const hvd::Error& error) {
    meeting_.give_up(error);
  }
}

// Each rank reduces one slice of all inputs into all outputs.
void ShmCommunicator::reduce_shared(std::size_t count, const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  const std::size_t per_line = kLineBytes / width;
  const std::size_t slice = ((count + size_ - 1) / size_ + per_line - 1) / per_line * per_line;
  const std::size_t begin = std::min(count, rank_ * slice);
  const std::size_t size = std::min(count, begin + slice) - begin;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    sources_[rank] = mapped(rank, places_[rank].input, count * width) + begin * width;
    targets_[rank] = mapped(rank, places_[rank].output, count * width) + begin * width;
  }
  if (size > 0) reduce(sources_.data(), size_, size, reduction, targets_.data(), size_);
  meeting_.meet();
}

void ShmCommunicator::reduce_small(const std::byte* input, std::byte* output, std::size_t count,
                                   const Reduction& reduction) {
  const std::size_t bytes = count * element_size(reduction.type);
  const bool in_line = bytes <= kInlineBytes;
  if (!in_line) ++stage_;
  copy_bytes(in_line ? meeting_.own_data() : slot(rank_), input, bytes);
  meeting_.meet();
  for (std::size_t rank = 0; rank < size_; ++rank)
    sources_[rank] = rank == rank_ ? input : in_line ? meeting_.data_of(rank) : slot(rank);
  if (bytes > 0) reduce(sources_.data(), size_, count, reduction, &output, 1);
}

void ShmCommunicator::reduce_chunk(const std::byte* input, std::byte* output, std::size_t count,
                                   const Reduction& reduction) {
  const std::size_t width = element_size(reduction.type);
  // Slices begin at cache lines: no line is written by two ranks.
  const std::size_t per_line = kLineBytes / width;
  const std::size_t slice = ((count + size_ - 1) / size_ + per_line - 1) / per_line * per_line;
  const auto begin_of = [&](std::size_t rank) { return std::min(count, rank * slice); };
  ++stage_;
  copy_bytes(slot(rank_), input, count * width);
  meeting_.meet();
  const std::size_t begin = begin_of(rank_);
  for (std::size_t rank = 0; rank < size_; ++rank) sources_[rank] = slot(rank) + begin * width;
  // Into our own slot: nobody else reads this slice of it before the next meeting.
  std::byte* const outputs[] = {slot(rank_) + begin * width, output + begin * width};
  reduce(sources_.data(), size_, begin_of(rank_ + 1) - begin, reduction, outputs, 2);
  meeting_.meet();
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const std::size_t start = begin_of(rank) * width;
    copy_bytes(output + start, slot(rank) + start, begin_of(rank + 1) * width - start);
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
  const std::size_t total = count * element_size(type);
  if (meet_places(data, total, nullptr, 0) && places_[source].input.id != 0) {
    if (rank_ != source) copy_bytes(bytes, mapped(source, places_[source].input, total), total);
    return meeting_.meet();  // the root may change its data from here on
  }
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(kChunkBytes, total - done);
    ++stage_;
    if (rank_ == source) copy_bytes(slot(rank_), bytes + done, size);
    meeting_.meet();
    if (rank_ != source) copy_bytes(bytes + done, slot(source), size);
    done += size;
  } while (done < total);
}

void ShmCommunicator::allgather(const void* input, void* output, const std::size_t* counts,
                                hvd::DataType type, const CallOptions& options) {
  meeting_.begin(Descriptor{.count = sum_of(counts, size_),
                            .counts = counts_fingerprint(counts, size_),
                            .kind = OpKind::allgather,
                            .type = type},
                 options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t width = element_size(type);
  const std::size_t most = *std::max_element(counts, counts + size_) * width;
  if (meet_places(input, counts[rank_] * width, nullptr, most) && all_inputs_of(counts)) {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::size_t bytes = counts[rank] * width;
      if (bytes > 0 && !(rank == rank_ && to == from))
        copy_bytes(to, rank == rank_ ? from : mapped(rank, places_[rank].input, bytes), bytes);
      to += bytes;
    }
    return meeting_.meet();
  }
  const auto size_at = [&](std::size_t rank, std::size_t done) {
    const std::size_t total = counts[rank] * width;
    return std::min(kChunkBytes, total - std::min(total, done));
  };
  std::size_t done = 0;
  do {
    ++stage_;
    copy_bytes(slot(rank_), from + done, size_at(rank_, done));
    meeting_.meet();
    std::size_t begin = 0;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      // In place the own part is there already, and not staged whole yet.
      if (rank != rank_ || to + begin != from)
        copy_bytes(to + begin + done, slot(rank), size_at(rank, done));
      begin += counts[rank] * width;
    }
    done += kChunkBytes;
  } while (done < most);
}

void ShmCommunicator::reducescatter(const void* input, void* output, const std::size_t* counts,
                                    const Reduction& reduction, const CallOptions& options) {
  meeting_.begin(Descriptor{.count = sum_of(counts, size_),
                            .counts = counts_fingerprint(counts, size_),
                            .kind = OpKind::reducescatter,
                            .type = reduction.type,
                            .op = reduction.op,
                            .detail = scale_fingerprint(reduction)},
                 options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t width = element_size(reduction.type);
  const std::size_t step = piece_bytes() / width;
  const std::size_t most = *std::max_element(counts, counts + size_);
  const std::size_t all = sum_of(counts, size_);
  // In place a rank's result would overwrite what others still read.
  if (meet_places(from == to ? nullptr : from, all * width, nullptr, 0) && all_inputs()) {
    const std::size_t begin = sum_of(counts, rank_) * width;
    for (std::size_t rank = 0; rank < size_; ++rank)
      sources_[rank] = mapped(rank, places_[rank].input, all * width) + begin;
    if (counts[rank_] > 0) reduce(sources_.data(), size_, counts[rank_], reduction, &to, 1);
    return meeting_.meet();
  }
  const auto size_at = [&](std::size_t rank, std::size_t done) {
    return std::min(step, counts[rank] - std::min(counts[rank], done));
  };
  std::size_t done = 0;
  do {
    ++stage_;
    std::size_t begin = 0;
    for (std::size_t reader = 0; reader < size_; ++reader) {
      copy_bytes(piece(rank_, reader), from + (begin + done) * width,
                 size_at(reader, done) * width);
      begin += counts[reader];
    }
    meeting_.meet();
    for (std::size_t rank = 0; rank < size_; ++rank) sources_[rank] = piece(rank, rank_);
    std::byte* const target = to + done * width;
    if (const std::size_t count = size_at(rank_, done); count > 0)
      reduce(sources_.data(), size_, count, reduction, &target, 1);
    done += step;
  } while (done < most);
}

void ShmCommunicator::alltoall(const void* input, const std::size_t* send_counts, void* output,
                               const std::size_t* receive_counts, hvd::DataType type,
                               const CallOptions& options) {
  meeting_.begin(Descriptor{.kind = OpKind::alltoall, .type = type}, options);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  const std::size_t width = element_size(type);
  const std::size_t step = piece_bytes();
  const std::size_t most = agree_on_counts(send_counts, receive_counts) * width;
  // In place what arrives would overwrite what others still read.
  if (meet_places(from == to ? nullptr : from, sum_of(send_counts, size_) * width, nullptr,
                  most * size_) &&
      all_inputs()) {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::size_t bytes = receive_counts[rank] * width;
      const std::size_t begin = begins_[rank] * width;
      if (bytes > 0)
        copy_bytes(to, mapped(rank, places_[rank].input, begin + bytes) + begin, bytes);
      to += bytes;
    }
    return meeting_.meet();
  }
  const auto size_at = [&](std::size_t count, std::size_t done) {
    return std::min(step, count * width - std::min(count * width, done));
  };
  for (std::size_t done = 0; done < most; done += step) {
    ++stage_;
    std::size_t begin = 0;
    for (std::size_t reader = 0; reader < size_; ++reader) {
      copy_bytes(piece(rank_, reader), from + begin + done, size_at(send_counts[reader], done));
      begin += send_counts[reader] * width;
    }
    meeting_.meet();
    begin = 0;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      copy_bytes(to + begin + done, piece(rank, rank_), size_at(receive_counts[rank], done));
      begin += receive_counts[rank] * width;
    }
  }
}

std::size_t ShmCommunicator::agree_on_counts(const std::size_t* send_counts,
                                             const std::size_t* receive_counts) {
  ++stage_;
  const auto count_of = [this](std::size_t rank, std::size_t reader) {
    std::uint64_t count = 0;
    std::memcpy(&count, slot(rank) + reader * sizeof count, sizeof count);
    return static_cast<std::size_t>(count);
  };
  for (std::size_t reader = 0; reader < size_; ++reader) {
    const std::uint64_t count = send_counts[reader];
    std::memcpy(slot(rank_) + reader * sizeof count, &count, sizeof count);
  }
  meeting_.meet();
  std::size_t most = 0;
  std::string fault;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    begins_[rank] = 0;
    for (std::size_t reader = 0; reader < size_; ++reader) {
      most = std::max(most, count_of(rank, reader));
      if (reader < rank_) begins_[rank] += count_of(rank, reader);
    }
    if (fault.empty() && count_of(rank, rank_) != receive_counts[rank])
      fault = "alltoall: rank " + std::to_string(rank) + " sends " +
              std::to_string(count_of(rank, rank_)) + " elements to rank " + std::to_string(rank_) +
              ", which expects " + std::to_string(receive_counts[rank]);
  }
  if (!fault.empty()) meeting_.give_up({hvd::ErrorCode::mismatch, fault});
  // So that whoever finds a fault has told everybody before anybody returns.
  meeting_.meet();
  return most;
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
