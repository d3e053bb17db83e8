// A barrier in shared memory whose waits cannot hang: between ranks that are processes of one host
// or, in tests, threads of one process.
//
// Every rank owns a block of the control area and is the only one that writes to it. Barrier number
// b uses line b % 2: a rank writes what it has to say (a descriptor, a few bytes) into its own
// line, then stores b in `arrived`. Whoever has seen b in every line has met. It may read the lines
// and whatever else the others wrote before they arrived, until it arrives at b + 1 itself. Line b
// % 2 is written again for b + 2 only, which nobody begins before all have arrived at b + 1.
//
// A rank whose wait for b fails takes its arrival back: no later one can meet it there.
//
// So a rank that has arrived is needed no more for b, even when it is dead by the time a slow rank
// looks: only ranks that have NOT arrived can fail a wait. That is what lets the last barrier of a
// job succeed on the slow rank after the fast one has left.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "worker/hvd/comm/abort_signal.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {

// One cache line: for small operations the only one that moves between two cores.
struct alignas(64) MeetingLine {
  std::atomic<std::uint64_t> arrived;
  Descriptor descriptor;
  std::byte data[kInlineBytes];
};
static_assert(sizeof(MeetingLine) == 64);

struct alignas(64) MeetingBlock {
  static constexpr std::size_t kMaxText = 372;
  MeetingLine lines[2];
  std::atomic<std::uint32_t> failed;  // 1: the rest is there, the rank arrives nowhere any more
  std::uint32_t code;
  std::uint32_t text_bytes;
  char text[kMaxText];
};
static_assert(sizeof(MeetingBlock) == 512);

struct MeetingHeader {
  alignas(64) std::atomic<std::uint32_t> bell;      // futex word, counts the wake-ups
  alignas(64) std::atomic<std::uint32_t> sleepers;  // ranks that wait for the bell
  std::atomic<std::uint32_t> idlers;                // of them, those that wait for anybody
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class Meeting {
 public:
  // Bytes of the control area, a multiple of a page.
  static std::size_t control_bytes(std::size_t size);

  // `control` is zeroed memory that all ranks share, aligned to a page. `may_spin`: the threads of
  // all ranks fit the cores.
  // Words call the ranks `names`; none: 0, 1, 2 and so on.
  // `abort` ends waits, if there.
  Meeting(std::byte* control, std::size_t rank, std::size_t size, bool may_spin,
          std::vector<std::size_t> names = {}, std::shared_ptr<const AbortSignal> abort = {});

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  // The job's number of a rank.
  std::size_t number_of(std::size_t rank) const { return names_.empty() ? rank : names_[rank]; }

  // Begins an operation; throws what broke the communicator before.
  void begin(const Descriptor& operation, const CallOptions& options);
  // This rank cannot go on with the operation: the others, who wait for it, are told why. Throws
  // the error; only between meetings.
  [[noreturn]] void give_up(const hvd::Error& reason) { fail(reason); }
  // The same without an operation of its own; does not throw.
  void break_off(const hvd::Error& reason);
  // Room of this rank for a few bytes that travel with its next arrival.
  std::byte* own_data() { return blocks_[rank_].lines[(count_ + 1) % 2].data; }
  // Arrives and waits for all. The first one of an operation compares the descriptors; when they
  // are not the same, every rank throws Differs from it.
  void meet();
  // True: Differs was thrown since the last call of this; all ranks have the same answer.
  bool take_differed() { return std::exchange(differed_, false); }
  // See Communicator.
  bool await_others(std::chrono::milliseconds limit) HVD_EXCLUDES(mutex_);
  void wake();
  // The bytes that `rank` wrote before the meeting that has just ended.
  const std::byte* data_of(std::size_t rank) const { return line(rank).data; }

  // From any thread.
  void abort(const hvd::Error& reason) HVD_EXCLUDES(mutex_);
  void peer_gone(std::size_t rank, const hvd::Error& reason) HVD_EXCLUDES(mutex_);

 private:
  const MeetingLine& line(std::size_t rank) const { return blocks_[rank].lines[count_ % 2]; }
  bool has_arrived(std::size_t rank) const {
    return line(rank).arrived.load(std::memory_order_seq_cst) == count_;
  }
  // Everybody from `next` on has arrived; moves `next` to the first who has not.
  bool all_arrived(std::size_t& next) const;
  void arrive();
  void wait();
  void sleep(std::size_t next);
  void look_for_trouble() HVD_EXCLUDES(mutex_);
  std::optional<hvd::Error> reason_of(std::size_t rank) const;
  bool somebody_waits() const;
  void compare();
  void ring();
  std::string missing_ranks() const;
  std::string name_of(std::size_t rank) const { return "rank " + std::to_string(number_of(rank)); }
  void tell(const hvd::Error& reason);
  [[noreturn]] void fail(const hvd::Error& reason);
  [[noreturn]] void fail_waiting(const hvd::Error& reason);

  MeetingHeader& header_;
  MeetingBlock* const blocks_;
  const std::size_t rank_;
  const std::size_t size_;
  const bool may_spin_;
  const std::vector<std::size_t> names_;
  const std::shared_ptr<const AbortSignal> abort_;

  std::uint64_t count_ = 0;  // the barrier that this rank is in or has last left
  Descriptor operation_;     // of a step: what it is a step of
  CallOptions options_;
  bool compared_ = false;
  bool differed_ = false;
  std::atomic<bool> woken_{false};
  std::optional<std::chrono::steady_clock::time_point> slow_at_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  // set by the first long wait
  std::optional<hvd::Error> broken_;

  std::atomic<bool> alarm_{false};  // aborted_ or gone_ has something
  Mutex mutex_;
  std::optional<hvd::Error> aborted_ HVD_GUARDED_BY(mutex_);
  std::vector<std::optional<hvd::Error>> gone_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvdrun
