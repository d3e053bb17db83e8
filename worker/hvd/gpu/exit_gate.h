// The end of the process, for threads of ours that call the driver, NCCL or our kernels. CUDA ends
// in a handler of exit(), while other threads run on: what they call then may crash. So a handler
// of ours runs before CUDA's. It lets nobody in any more, has NCCL's kernels under way aborted, and
// waits for those who are within. A signal that ends the process needs nothing of this.
//
// A thread that is stuck within NCCL or the driver would crash there in the end: then the process
// is ended without the handlers that were to follow, with the code that exit() was called with.
#pragma once

#include <chrono>
#include <functional>

namespace hvdrun {

// A thread's pass, which may be within for as long as this lives.
class DriverPass {
 public:
  enum class For {
    work,     // refused from the moment when exit() has reached us
    the_end,  // until CUDA's own handler may run: for what ends the work of others
  };
  explicit DriverPass(For purpose = For::work) noexcept;
  DriverPass(const DriverPass&) = delete;
  DriverPass& operator=(const DriverPass&) = delete;
  ~DriverPass();
  explicit operator bool() const noexcept { return granted_; }

 private:
  bool granted_;
};

// The handler runs before all that were registered before this call, so it is called again whenever
// CUDA or NCCL may have registered one. At most a few times in a process. Any thread.
void guard_exit() noexcept;

// All streams of the C library, for who ends the process by _exit(). Waits for a moment at most: a
// stuck thread may hold a stream's lock, and so may one that reads its stdin for ever.
void flush_what_can_be() noexcept;

// Something that is under way on a GPU, for as long as this lives. `end` is called at exit(), on a
// thread of its own, and makes it end; it may take passes for the end.
class EndsAtExit {
 public:
  explicit EndsAtExit(std::function<void()> end);
  EndsAtExit(const EndsAtExit&) = delete;
  EndsAtExit& operator=(const EndsAtExit&) = delete;
  ~EndsAtExit();

 private:
  std::function<void()> end_;
};

// The time that exit() may be held up, at most: for ending what is under way, then for those
// within.
inline constexpr std::chrono::milliseconds kEndPatience{2'000};
inline constexpr std::chrono::milliseconds kLeavePatience{500};

}  // namespace hvdrun
