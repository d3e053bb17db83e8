// Tells that another rank of this host has died, before the kernel has freed its memory: the end of
// its connections, of its pidfd and SIGCHLD come 40 to 170 ms a GiB after that.
//
// Each rank has a word in shared memory, which its watching thread holds as a robust futex. When
// that thread ends without giving it back, the kernel marks the word and wakes one who waits for
// it: one only, so each rank watches one other, the next one that lives. Together they are a ring.
//
// A clean end gives the word back first. A program that execs another one dies for its ranks, as
// its library does. A child of a fork has no part in it. A process that writes a core file dies
// when that is written, on newer kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "worker/hvd/comm/shm/mapping.h"

namespace hvdrun {

// A rank's word has a cache line of its own.
struct alignas(64) LifeWord {
  // The thread that holds it, with the kernel's bits (linux/futex.h); 0: nobody yet, or no more.
  std::atomic<std::uint32_t> holder;
};
static_assert(sizeof(LifeWord) == 64);

class DeathWatch {
 public:
  static std::size_t area_bytes(std::size_t ranks) { return ranks * sizeof(LifeWord); }

  // Takes the word of `rank`. `area` is zeroed memory of area_bytes(size), in `mapping`, that all
  // ranks share. Where the kernel has no robust futexes nobody is told of anything.
  DeathWatch(std::shared_ptr<const Mapping> mapping, std::byte* area, std::size_t rank,
             std::size_t size);
  // Gives it back.
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  // All ranks have taken their words. `died` is called on the watching thread, once for each rank
  // of the host that this one is the first living one behind; it must not wait.
  void watch(std::function<void(std::size_t rank)> died);

 private:
  void run();
  // Waits for the end of the next living rank; false: for nobody any more.
  bool watch_next();
  bool wait_for_end(std::atomic<std::uint32_t>& word);
  // This thread has been told something: what it waits for has another value now.
  void disturb(std::atomic<std::uint32_t>& word);

  const std::shared_ptr<const Mapping> mapping_;
  LifeWord* const words_;
  const std::size_t rank_;
  const std::size_t size_;
  std::function<void(std::size_t)> died_;  // set before may_watch_
  // Futexes of this process: the word is held; there is something to look at.
  std::atomic<std::uint32_t> held_{0};
  std::atomic<std::uint32_t> may_watch_{0};
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> watched_;  // of the thread
  std::thread thread_;
};

}  // namespace hvdrun
