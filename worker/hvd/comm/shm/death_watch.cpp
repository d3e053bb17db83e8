#include "worker/hvd/comm/shm/death_watch.h"

#include <chrono>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "worker/hvd/client/quiet_thread.h"
#include "worker/hvd/comm/shm/futex.h"

namespace hvdrun {
namespace {

// A wake-up that was missed for whatever reason costs this.
constexpr std::chrono::seconds kLongestSleep{1};

// The kernel walks a thread's list when the thread ends. Ours has one entry, and lies on the stack
// of the thread that it is about; it takes the place of glibc's, whose robust mutexes that thread
// has none of.
class HeldWord {
 public:
  // Nobody else holds it.
  explicit HeldWord(std::atomic<std::uint32_t>& word) : word_(word) {
    head_.list.next = &head_.list;
    head_.futex_offset =
        reinterpret_cast<const char*>(&word) - reinterpret_cast<const char*>(&entry_);
    head_.list_op_pending = nullptr;
    entry_.next = &head_.list;
    if (::syscall(SYS_set_robust_list, &head_, sizeof head_) != 0) return;
    // A death between the two finds the word by the pending entry.
    head_.list_op_pending = &entry_;
    word.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)), std::memory_order_seq_cst);
    head_.list.next = &entry_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    head_.list_op_pending = nullptr;
  }
  ~HeldWord() {
    head_.list_op_pending = &entry_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    head_.list.next = &head_.list;
    word_.store(0, std::memory_order_seq_cst);
    futex_wake_all(word_);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    head_.list_op_pending = nullptr;
    // The kernel would look at this place when the thread ends.
    ::syscall(SYS_set_robust_list, nullptr, sizeof head_);
  }
  HeldWord(const HeldWord&) = delete;
  HeldWord& operator=(const HeldWord&) = delete;

 private:
  std::atomic<std::uint32_t>& word_;
  robust_list_head head_{};
  robust_list entry_{};
};

}  // namespace

DeathWatch::DeathWatch(std::shared_ptr<const Mapping> mapping, std::byte* area, std::size_t rank,
                       std::size_t size)
    : mapping_(std::move(mapping)),
      words_(reinterpret_cast<LifeWord*>(area)),
      rank_(rank),
      size_(size),
      watched_(rank) {
  thread_ = quiet_thread([this] { run(); });
  while (held_.load(std::memory_order_seq_cst) == 0) futex_wait(held_, 0, kLongestSleep);
}

DeathWatch::~DeathWatch() {
  stop_.store(true, std::memory_order_seq_cst);
  may_watch_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(may_watch_);
  disturb(words_[watched_.load(std::memory_order_seq_cst)].holder);
  thread_.join();
}

void DeathWatch::watch(std::function<void(std::size_t)> died) {
  died_ = std::move(died);
  may_watch_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(may_watch_);
}

void DeathWatch::disturb(std::atomic<std::uint32_t>& word) {
  word.fetch_and(~FUTEX_WAITERS, std::memory_order_seq_cst);
  futex_wake_all(word);
}

void DeathWatch::run() {
  const HeldWord own(words_[rank_].holder);
  held_.store(1, std::memory_order_seq_cst);
  futex_wake_all(held_);
  while (may_watch_.load(std::memory_order_seq_cst) == 0) futex_wait(may_watch_, 0, kLongestSleep);
  while (!stop_.load(std::memory_order_seq_cst) && watch_next()) {
  }
  // With nobody left to watch the word is still held.
  while (true) {
    const std::uint32_t seen = may_watch_.load(std::memory_order_seq_cst);
    if (stop_.load(std::memory_order_seq_cst)) return;
    futex_wait(may_watch_, seen, kLongestSleep);
  }
}

bool DeathWatch::watch_next() {
  const std::size_t next = (watched_.load(std::memory_order_relaxed) + 1) % size_;
  if (next == rank_) return false;
  watched_.store(next, std::memory_order_seq_cst);
  if (wait_for_end(words_[next].holder)) died_(next);
  return true;
}

// True: who held it has died; false: it has been given back, or this watch is over.
bool DeathWatch::wait_for_end(std::atomic<std::uint32_t>& word) {
  while (true) {
    std::uint32_t seen = word.load(std::memory_order_seq_cst);
    if ((seen & FUTEX_OWNER_DIED) != 0) return true;
    if ((seen & FUTEX_TID_MASK) == 0) return false;
    if ((seen & FUTEX_WAITERS) == 0) {
      const std::uint32_t marked = seen | FUTEX_WAITERS;
      if (!word.compare_exchange_strong(seen, marked, std::memory_order_seq_cst)) continue;
      seen = marked;
    }
    // Behind the mark: who stops this watch takes the mark away after having said so.
    if (stop_.load(std::memory_order_seq_cst)) return false;
    futex_wait(word, seen, kLongestSleep);
  }
}

}  // namespace hvdrun
