// The ways of bytes between the ranks of one host: through staging slots in their shared mapping,
// or straight out of and into buffers in SharedMemory. The algorithms are those of
// shm_communicator.cpp.
//
// A stage is filled before one meeting and drained after it. Each rank has two slots, used in turn:
// the stage after next fills the same slot, and begins only when all have arrived at the meeting
// between, done with draining.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/hvd/comm/shm/mapping.h"
#include "worker/hvd/comm/shm/meeting.h"
#include "worker/hvd/comm/shm/shared_memory.h"
#include "worker/hvd/comm/shm/shm_communicator.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {

inline constexpr std::size_t kLineBytes = 64;

class Staging {
 public:
  // Bytes of the whole mapping.
  static std::size_t mapping_bytes(std::size_t ranks);

  Staging(std::shared_ptr<const Mapping> mapping, const ShmOptions& options);

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  Meeting& meeting() { return meeting_; }

  // kChunkBytes of `rank`, in the current stage.
  std::byte* slot(std::size_t rank) const {
    return slots_ + (rank * kSlots + stage_ % kSlots) * slot_bytes_;
  }
  // The part of `rank`'s slot that is meant for `reader`, of piece_bytes().
  std::byte* piece(std::size_t rank, std::size_t reader) const {
    return slot(rank) + reader * piece_bytes();
  }
  std::size_t piece_bytes() const { return kChunkBytes / size_ / kLineBytes * kLineBytes; }
  // Room for a number for each rank and one more, behind the slot of the current stage.
  std::byte* counts(std::size_t rank) const { return slot(rank) + kChunkBytes; }

  // A rank's words on its buffers in the first meeting of a large operation; none when it has
  // staged its first chunk instead.
  struct Places {
    SharedPlace input;
    SharedPlace output;
  };
  static_assert(sizeof(Places) <= kInlineBytes);
  // True: ranks ask each other for their places when their buffers have this size.
  bool asks(std::size_t bytes) const { return memory_ && asks_for_buffers(bytes); }
  struct Opening {
    bool asks = false;     // the same on every rank
    bool offered = false;  // this rank's buffers are shared, and it stages nothing
  };
  // Begins the first stage of an operation. Where ranks ask, the others learn in its meeting where
  // these buffers are; without output_bytes only the input matters, without an input none is
  // offered.
  Opening open(bool asks, const void* input, std::size_t input_bytes, const void* output,
               std::size_t output_bytes);
  const Places& places(std::size_t rank) const { return places_[rank]; }

  // Moves bytes in stages of `step`: fill(done) writes slots, drain(done) reads them. True, and
  // nothing was drained: all ranks for which needed(rank) holds have offered their buffers.
  // total_of(), the same on every rank, may read what travelled with the first meeting.
  template <class Needed, class Fill, class Total, class Drain>
  bool move(const Opening& opening, std::size_t step, const Needed& needed, const Fill& fill,
            const Total& total_of, const Drain& drain) {
    if (!opening.offered) fill(0);
    meeting_.meet();
    const std::size_t total = total_of();
    if (opening.asks) {
      const Offers offers = read_offers(needed);
      if (offers == Offers::all) return true;
      // Those that offered have staged nothing.
      if (offers == Offers::some) next_stage(fill, 0);
    }
    for (std::size_t done = 0;;) {
      drain(done);
      done += step;
      if (done >= total) return false;
      next_stage(fill, done);
    }
  }

  // Where `rank`'s buffer is in this process; whoever cannot map it tells the others.
  std::byte* mapped(std::size_t rank, const SharedPlace& place, std::size_t bytes);

 private:
  static constexpr std::size_t kSlots = 2;
  enum class Offers { none, some, all };

  static std::size_t slot_bytes(std::size_t ranks);
  template <class Fill>
  void next_stage(const Fill& fill, std::size_t done) {
    ++stage_;
    fill(done);
    meeting_.meet();
  }
  void read_places();
  template <class Needed>
  Offers read_offers(const Needed& needed) {
    read_places();
    bool all = true;
    bool some = false;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (!needed(rank)) continue;
      const bool offered = places_[rank].input.id != 0;
      all = all && offered;
      some = some || offered;
    }
    return all ? Offers::all : some ? Offers::some : Offers::none;
  }

  const std::shared_ptr<const Mapping> mapping_;
  const std::size_t rank_;
  const std::size_t size_;
  std::byte* const slots_;
  const std::size_t slot_bytes_;
  Meeting meeting_;
  std::uint64_t stage_ = 0;  // counts the uses of the slots, across operations
  const std::shared_ptr<SharedMemory> memory_;
  std::vector<Places> places_;
};

}  // namespace hvdrun
