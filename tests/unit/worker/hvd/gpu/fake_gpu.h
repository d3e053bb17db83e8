// A driver and an NCCL that run on the CPU, as one shared library: streams are threads, device
// memory is ordinary memory, the ranks are threads of one process. It stands in for what needs a
// GPU: order of calls, waits, failures. tests/gpu has the real ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace hvdrun::test {

// The knobs and records of a test.
struct FakeGpu {
  std::atomic<int> devices{8};
  // Ranks' communicators are never ready, even when all have come.
  std::atomic<bool> init_hangs{false};
  std::atomic<int> init_result{0};  // of ncclCommInitRankConfig
  // The rank whose ncclCommSplit fails; -1: none.
  std::atomic<int> split_fails_rank{-1};
  std::atomic<int> splits{0};
  // The rank whose communicators tell `async_error` from now on; -1: none.
  std::atomic<int> async_rank{-1};
  std::atomic<int> async_error{0};
  // A call to group_end of this rank does not return before its communicator is aborted.
  std::atomic<int> group_end_hangs_rank{-1};
  // This rank's ncclCommInitRankConfig does not return while that is so; -1: none.
  std::atomic<int> init_blocks_rank{-1};
  // As the real one: a communicator's first group is queued when all ranks have called theirs.
  std::atomic<bool> connects_late{false};
  // An abort does not return while that is so.
  std::atomic<bool> aborts_held{false};
  std::atomic<int> nccl_calls{0};  // all but for its version and its texts
  // An abort waits until so many communicators of its rank are being aborted.
  std::atomic<int> abort_needs{1};
  std::atomic<int> aborts{0};
  std::atomic<int> destroys{0};
  std::atomic<int> looks{0};            // at a communicator's state
  std::atomic<bool> looks_held{false};  // one that has found an error does not return
  std::atomic<int> shrink_flags{-1};
  std::atomic<int> contexts{0};  // retained and not released
  // The result of a context that is waited for. At the start HVD_FAKE_CONTEXT_RESULT of the
  // environment.
  std::atomic<int> context_result{0};
  std::atomic<bool> context_hangs{false};
  // The processes that NVML tells: this one, and so many times a dead one.
  std::atomic<bool> nvml_lists_me{true};
  std::atomic<int> nvml_lists_dead{0};
  std::atomic<int> nvml_result{0};  // of its list of processes
  std::atomic<int> priority{99};
  std::atomic<int> timing_events{0};         // made, since the start of a process
  std::atomic<std::int64_t> clock_ahead{0};  // of the GPU, nanoseconds
  std::atomic<bool> closed{false};           // the process is on its way out
  // exit() has reached the driver: a call that comes later ends the process by SIGSEGV.
  std::atomic<bool> ended{false};
  std::atomic<int> end_takes_ms{0};             // the driver's end, in which other threads run on
  std::atomic<std::size_t> largest_scratch{0};  // bytes of memory that a stream has allocated
  std::atomic<int> redops{0};                   // made and not destroyed
  std::atomic<int> misuses{0};                  // calls that the real libraries forbid
  std::atomic<bool> held{false};                // what fake_hold() was called for does not go on
  std::atomic<bool> new_streams_held{false};    // it is called for each stream that is made

  // Calls in the order in which they came. Streams go by name: numbers in the order of their
  // creation, for there is no better one. "user" is the first that was made after a reset of the
  // log.
  void log(const std::string& call) {
    const std::lock_guard lock(mutex);
    if (logging) calls.push_back(call);
  }
  std::mutex mutex;
  bool logging = false;
  std::vector<std::string> calls;
  std::string last_error;
};

}  // namespace hvdrun::test

extern "C" hvdrun::test::FakeGpu* fake_gpu();
// Later work on the stream waits while `held` is true.
extern "C" void fake_hold(void* stream);
