#include "worker/hvd/gpu/exit_gate.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/hvd/client/quiet_thread.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFlushPatience{200};

enum State { open, ending, sealed };
// The process's, and without a destructor: threads look at them until it is gone.
std::atomic<int> g_state{open};
std::atomic<int> g_within{0};
std::atomic<pid_t> g_guarded{0};  // the process: a child that was forked off has no threads of ours
thread_local int t_own = 0;       // passes of this thread

struct Things {
  Mutex mutex;
  std::vector<const std::function<void()>*> ends HVD_GUARDED_BY(mutex);
};
Things& things() {
  static auto* const all = new Things;
  return *all;
}

template <class Condition>
bool wait_for(milliseconds patience, const Condition& condition) {
  const auto deadline = steady_clock::now() + patience;
  while (!condition()) {
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// On a thread of its own: the one that exits may have been interrupted anywhere, by a signal whose
// handler calls exit(), and holds what it held.
void end_things() {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  try {
    quiet_thread([done] {
      {
        Things& all = things();
        const MutexLock lock(all.mutex);
        for (const std::function<void()>* const end : all.ends) (*end)();
      }
      *done = true;
    }).detach();
  } catch (const std::exception&) {
    return;  // no thread to be had: what runs is left to CUDA
  }
  wait_for(kEndPatience, [&] { return done->load(); });
}

void on_exit_of_process(int status, void* /*unused*/) {
  if (g_guarded != ::getpid()) return;
  int expected = open;
  if (!g_state.compare_exchange_strong(expected, ending)) return;
  end_things();
  g_state = sealed;
  if (wait_for(kLeavePatience, [] { return g_within <= t_own; })) return;
  flush_what_can_be();
  ::_exit(status);
}

}  // namespace

void flush_what_can_be() noexcept {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  try {
    quiet_thread([done] {
      std::fflush(nullptr);
      *done = true;
    }).detach();
  } catch (const std::exception&) {
    return;
  }
  wait_for(kFlushPatience, [&] { return done->load(); });
}

DriverPass::DriverPass(For purpose) noexcept {
  ++g_within;
  ++t_own;
  const int state = g_state;
  granted_ = state == open || (purpose == For::the_end && state == ending);
  if (granted_) return;
  --t_own;
  --g_within;
}

DriverPass::~DriverPass() {
  if (!granted_) return;
  --t_own;
  --g_within;
}

void guard_exit() noexcept {
  g_guarded = ::getpid();
  // It is told the code. It stands in the process's list for ever, as libhvd does (nodelete).
  ::on_exit(on_exit_of_process, nullptr);
}

EndsAtExit::EndsAtExit(std::function<void()> end) : end_(std::move(end)) {
  Things& all = things();
  const MutexLock lock(all.mutex);
  all.ends.push_back(&end_);
}

EndsAtExit::~EndsAtExit() {
  Things& all = things();
  const MutexLock lock(all.mutex);
  std::erase(all.ends, &end_);
}

}  // namespace hvdrun
