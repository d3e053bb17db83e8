#include "worker/hvd/comm/shm/meeting.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <sched.h>
#include <utility>

#include "worker/hvd/comm/shm/futex.h"
#include "worker/hvd/comm/shm/test_points.h"

namespace hvdrun {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kPageBytes = 4096;
// A spin that fails costs tens of microseconds, one that succeeds saves a scheduler round trip;
// with more threads than cores only giving the core away helps. Of 0 to 3000 yields, four ranks on
// two cores, 30 were about the best from 4 B to 4 MiB; without any, small operations take five
// times as long, because a core that falls asleep must be woken.
constexpr int kSpins = 2000;
constexpr int kYields = 30;
// A sleeper looks up this often even if nobody rings: a rank killed between its arrival and the
// bell must not cost the others more than this.
constexpr std::chrono::milliseconds kSlice{50};
constexpr std::size_t kMaxNamed = 8;
// In place of the number of a barrier: the rank was there, and gave up.
constexpr std::uint64_t kTakenBack = ~std::uint64_t{0};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

std::size_t Meeting::control_bytes(std::size_t size) {
  const std::size_t bytes = sizeof(MeetingHeader) + size * sizeof(MeetingBlock);
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

Meeting::Meeting(std::byte* control, std::size_t rank, std::size_t size, bool may_spin,
                 std::vector<std::size_t> names, std::shared_ptr<const AbortSignal> abort)
    : header_(*reinterpret_cast<MeetingHeader*>(control)),
      blocks_(reinterpret_cast<MeetingBlock*>(control + sizeof(MeetingHeader))),
      rank_(rank),
      size_(size),
      may_spin_(may_spin),
      names_(std::move(names)),
      abort_(std::move(abort)),
      gone_(size) {
  assert(rank < size);
  assert(names_.empty() || names_.size() == size);
}

void Meeting::begin(const Descriptor& operation, const CallOptions& options) {
  operation_ = options.step_of != nullptr ? *options.step_of : operation;
  operation_.fingerprint = options.fingerprint;
  options_ = options;
  deadline_.reset();
  slow_at_.reset();
  compared_ = false;
  if (broken_) {
    throw hvd::Error(
        broken_->code(),
        describe(operation_) + ": no collective can run after one that failed: " + broken_->what());
  }
  if (alarm_.load(std::memory_order_acquire)) {
    std::optional<hvd::Error> aborted;
    {
      const MutexLock lock(mutex_);
      aborted = aborted_;
    }
    if (aborted) fail(*aborted);
  }
}

void Meeting::meet() {
  arrive();
  if (!compared_ && options_.hooks != nullptr) options_.hooks->arrived();
  std::size_t next = 0;
  if (!all_arrived(next) && !(compared_ && leaves_out_wait())) wait();
  at_sync_point();
  if (compared_) return;
  compare();
  if (options_.hooks != nullptr) options_.hooks->agreed();
}

void Meeting::arrive() {
  ++count_;
  MeetingLine& own = blocks_[rank_].lines[count_ % 2];
  if (!compared_) own.descriptor = operation_;
  at_sync_point();
  // Sequentially consistent, as are the counter and the loads on the other side: either we see the
  // sleeper, or it sees us before it sleeps.
  own.arrived.store(count_, std::memory_order_seq_cst);
  at_sync_point();
  if (header_.sleepers.load(std::memory_order_seq_cst) == 0) return;
  // Only the last to arrive needs to wake those who wait for all; of two that are last at once,
  // both do.
  std::size_t next = 0;
  if (header_.idlers.load(std::memory_order_seq_cst) != 0 || all_arrived(next)) ring();
}

bool Meeting::all_arrived(std::size_t& next) const {
  while (next < size_ && has_arrived(next)) ++next;
  return next == size_;
}

void Meeting::wait() {
  std::size_t next = 0;
  if (may_spin_ && options_.may_spin) {
    for (int i = 0; i < kSpins; ++i) {
      if (all_arrived(next)) return;
      at_sync_point();
      relax();
    }
  }
  for (int i = 0; i < kYields; ++i) {
    if (all_arrived(next)) return;
    ::sched_yield();
  }
  sleep(next);
}

void Meeting::sleep(std::size_t next) {
  if (!deadline_) {
    deadline_ = steady_clock::now() + options_.timeout + options_.grace;
    if (options_.watch != nullptr) slow_at_ = steady_clock::now() + options_.watch->after;
  }
  at_sync_point();
  header_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  try {
    while (true) {
      const std::uint32_t seen = header_.bell.load(std::memory_order_seq_cst);
      at_sync_point();
      if (all_arrived(next)) break;
      look_for_trouble();
      const auto now = steady_clock::now();
      if (slow_at_ && now >= *slow_at_) {
        slow_at_ = now + options_.watch->after;
        options_.watch->tell();
      }
      const auto left = *deadline_ - now;
      if (left <= steady_clock::duration::zero()) {
        // The missing may have come while we looked at the clock.
        const std::string missing = missing_ranks();
        if (missing.empty()) break;
        fail_waiting({hvd::ErrorCode::timeout,
                      "waited " + seconds_text(options_.timeout) + " for " + missing});
      }
      at_sync_point();
      futex_wait(header_.bell, seen, std::min<std::chrono::nanoseconds>(left, kSlice));
    }
  } catch (...) {
    header_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    throw;
  }
  header_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

// Throws when this wait cannot end well. All arrivals are looked at once more after the reason was
// found: who did its part and failed or left afterwards harms nobody.
void Meeting::look_for_trouble() {
  const bool alarm = alarm_.load(std::memory_order_acquire);
  std::optional<hvd::Error> reason;
  if (alarm) {
    const MutexLock lock(mutex_);
    reason = aborted_;
  }
  if (!reason && abort_) reason = abort_->reason();
  // An arrival does not matter: with somebody missing it can only have failed in this very wait. It
  // may have left since, which is not the cause.
  for (std::size_t rank = 0; rank < size_ && !reason; ++rank) reason = reason_of(rank);
  if (alarm && !reason) {
    const MutexLock lock(mutex_);
    for (std::size_t rank = 0; rank < size_ && !reason; ++rank)
      if (gone_[rank] && !has_arrived(rank)) reason = gone_[rank];
  }
  std::size_t next = 0;
  if (reason && !all_arrived(next)) fail_waiting(*reason);
}

// A later rank must not find that all have arrived, and go on with what has failed here. Nor must
// one that gives up at the same time take this rank, whose reason is not there yet, for a missing
// one.
void Meeting::fail_waiting(const hvd::Error& reason) {
  blocks_[rank_].lines[count_ % 2].arrived.store(kTakenBack, std::memory_order_seq_cst);
  at_sync_point();
  fail(reason);
}

// The reason that a failed rank has told the others.
std::optional<hvd::Error> Meeting::reason_of(std::size_t rank) const {
  const MeetingBlock& block = blocks_[rank];
  if (block.failed.load(std::memory_order_acquire) == 0) return std::nullopt;
  const auto code = static_cast<hvd::ErrorCode>(block.code);
  const std::size_t bytes = std::min<std::size_t>(block.text_bytes, MeetingBlock::kMaxText);
  const std::string text(block.text, bytes);
  // A lost rank or a mismatch is the same news from whomever we hear it.
  if (code == hvd::ErrorCode::peer_lost || code == hvd::ErrorCode::mismatch)
    return hvd::Error(code, text);
  return hvd::Error(code, name_of(rank) + " gave up: " + text);
}

bool Meeting::somebody_waits() const {
  const std::uint64_t next = count_ + 1;
  for (std::size_t rank = 0; rank < size_; ++rank)
    if (blocks_[rank].lines[next % 2].arrived.load(std::memory_order_seq_cst) == next) return true;
  return false;
}

bool Meeting::await_others(std::chrono::milliseconds limit) {
  if (broken_) throw hvd::Error(*broken_);
  const auto until = steady_clock::now() + limit;
  header_.idlers.fetch_add(1, std::memory_order_seq_cst);
  header_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool found = false;
  std::optional<hvd::Error> reason;
  while (true) {
    const std::uint32_t seen = header_.bell.load(std::memory_order_seq_cst);
    {
      // Also where the others wait already: they wait for what this rank has given up.
      const MutexLock lock(mutex_);
      reason = aborted_;
    }
    if (reason) break;
    found = somebody_waits();
    if (found || woken_.exchange(false, std::memory_order_acq_rel)) break;
    for (std::size_t rank = 0; rank < size_ && !reason; ++rank) reason = reason_of(rank);
    if (!reason) {
      const MutexLock lock(mutex_);
      for (std::size_t rank = 0; rank < size_ && !reason; ++rank) reason = gone_[rank];
    }
    const auto left = until - steady_clock::now();
    if (reason || left <= steady_clock::duration::zero()) break;
    futex_wait(header_.bell, seen, std::min<std::chrono::nanoseconds>(left, kSlice));
  }
  header_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  header_.idlers.fetch_sub(1, std::memory_order_seq_cst);
  if (reason) {
    break_off(*reason);
    throw hvd::Error(*reason);
  }
  return found;
}

void Meeting::wake() {
  woken_.store(true, std::memory_order_release);
  ring();
}

void Meeting::compare() {
  compared_ = true;
  const Descriptor& first = line(0).descriptor;
  for (std::size_t rank = 1; rank < size_; ++rank) {
    const Descriptor& other = line(rank).descriptor;
    if (other == first) continue;
    differed_ = true;
    // Everybody compares with rank 0 in the same order, so everybody throws the same words.
    throw Differs(name_of(0) + " called " + describe(first) + ", but " + name_of(rank) +
                  " called " + describe(other));
  }
}

// Those that have not come; where all have, those that came and gave up. Empty: all have arrived.
std::string Meeting::missing_ranks() const {
  const auto names_of = [this](bool gave_up) {
    std::string text;
    std::size_t named = 0;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::uint64_t at = line(rank).arrived.load(std::memory_order_seq_cst);
      if (at == count_ || (at == kTakenBack) != gave_up) continue;
      if (named < kMaxNamed) text += (named == 0 ? "" : ", ") + name_of(rank);
      ++named;
    }
    if (named > kMaxNamed) text += " and " + std::to_string(named - kMaxNamed) + " more";
    return text;
  };
  std::string missing = names_of(false);
  if (!missing.empty()) return missing;
  std::string gave_up = names_of(true);
  if (!gave_up.empty()) gave_up += ", which gave up";
  return gave_up;
}

void Meeting::fail(const hvd::Error& reason) {
  tell(reason);
  // A mismatch names the operation itself, on both sides.
  const std::string what = reason.code() == hvd::ErrorCode::mismatch
                               ? std::string(reason.what())
                               : describe(operation_) + ": " + reason.what();
  broken_.emplace(reason.code(), what);
  throw hvd::Error(*broken_);
}

void Meeting::break_off(const hvd::Error& reason) {
  if (broken_) return;
  tell(reason);
  broken_ = reason;
}

// The others must not wait for us: tell them why we come no more.
void Meeting::tell(const hvd::Error& reason) {
  MeetingBlock& own = blocks_[rank_];
  const std::string text = reason.what();
  own.code = static_cast<std::uint32_t>(reason.code());
  own.text_bytes =
      static_cast<std::uint32_t>(std::min(text.size(), std::size_t{MeetingBlock::kMaxText}));
  std::memcpy(own.text, text.data(), own.text_bytes);
  at_sync_point();
  own.failed.store(1, std::memory_order_seq_cst);
  ring();
}

void Meeting::ring() {
  at_sync_point();
  header_.bell.fetch_add(1, std::memory_order_seq_cst);
  at_sync_point();
  futex_wake_all(header_.bell);
}

void Meeting::abort(const hvd::Error& reason) {
  {
    const MutexLock lock(mutex_);
    if (!aborted_) aborted_ = reason;
    alarm_.store(true, std::memory_order_release);
  }
  ring();
}

void Meeting::peer_gone(std::size_t rank, const hvd::Error& reason) {
  {
    const MutexLock lock(mutex_);
    if (!gone_[rank]) gone_[rank] = reason;
    alarm_.store(true, std::memory_order_release);
  }
  ring();
}

}  // namespace hvdrun
