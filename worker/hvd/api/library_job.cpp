#include "worker/hvd/api/library_job.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "worker/hvd/elastic/first_step.h"
#include "worker/hvd/engine/fingerprint.h"
#include "worker/hvd/gpu/exit_gate.h"

namespace hvdrun {
namespace {

// The one global of the library: never destroyed at exit, where other threads may still run and a
// goodbye would hide that the program ended without hvd::shutdown(). The end of the process closes
// the line.
std::atomic<WorkerJob*> g_job{nullptr};
Mutex g_init;
// This process has been in elastic::run, and is no newcomer any more.
std::atomic<bool> g_entered{false};
// Its first job had gone on for a while.
std::atomic<bool> g_came_late{false};
bool g_has_joined HVD_GUARDED_BY(g_init) = false;
// The process is late: init() has taken what its environment says, and the others are asked when it
// comes to elastic::run. Until then it costs them nothing.
std::optional<hvd::InitOptions> g_waits HVD_GUARDED_BY(g_init);

constexpr const char* kInitFailed = "hvd::init() has failed in this process, or is not done yet";
// The reason why there is no job, while there is none. A constant text.
std::atomic<const char*> g_no_job{"hvd::init() has not been called in this process"};

// A forked child has none of the library's threads, and the job is its parent's: forget it. The
// memory is leaked on purpose, as its destructor would speak to the agent.
void forget_in_child() noexcept {
  WorkerJob* const parents = g_job.exchange(nullptr, std::memory_order_acq_rel);
  if (parents == nullptr) return;
  g_no_job.store(
      "this process is a child by fork() of one that had called hvd::init(): the job is its "
      "parent's",
      std::memory_order_release);
  parents->abandon_in_child();
}

void end_job(WorkerJob* job) noexcept {
  if (job == nullptr) return;
  g_no_job.store("hvd::shutdown() has been called; another hvd::init() joins the job again",
                 std::memory_order_release);
  g_job.store(nullptr, std::memory_order_release);
  delete job;
}

// A message's part of a state's layout. One that is cut differs where the whole does.
std::string told_layout(const std::string& layout) {
  if (layout.size() <= limits::kMaxStateLayout) return layout;
  const std::string rest = "... (" + std::to_string(layout.size()) + " bytes, fingerprint " +
                           std::to_string(Fingerprint().add(std::string_view(layout)).value()) +
                           ")";
  return layout.substr(0, limits::kMaxStateLayout - rest.size()) + rest;
}

void join_job(const hvd::InitOptions& options, const std::string& layout = {})
    HVD_REQUIRES(g_init) {
  g_no_job.store(kInitFailed, std::memory_order_release);
  const bool is_first = !std::exchange(g_has_joined, true);
  std::unique_ptr<WorkerJob> made;
  // The launcher counts who is lost, and ends the job when it is too often.
  while (!made) {
    try {
      made = std::make_unique<WorkerJob>(process_environment, options, layout);
    } catch (const MeetingBrokenOff&) {
      continue;
    }
  }
  if (is_first && made->is_under_way()) g_came_late.store(true);
  g_job.store(made.release(), std::memory_order_release);
}

void end_if_unusable(WorkerJob& job, const hvd::Error* reason) noexcept {
  const auto why = job.leave_gpu(reason);
  if (!why) return;
  std::fprintf(stderr, "hvd: rank %d: %s\n", job.place().rank, why->c_str());
  // The handlers of exit() would wait for the GPU.
  flush_what_can_be();
  ::_exit(exit_code::kUnusable);
}

}  // namespace

WorkerJob& library_job() {
  WorkerJob* const current = current_job();
  if (current == nullptr)
    throw hvd::Error(hvd::ErrorCode::not_initialized, g_no_job.load(std::memory_order_acquire));
  return *current;
}

WorkerJob* current_job() noexcept { return g_job.load(std::memory_order_acquire); }

WorkerJob& collective_job() {
  WorkerJob& job = library_job();
  if (!came_late() || g_entered.load(std::memory_order_relaxed)) return job;
  throw hvd::Error(hvd::ErrorCode::invalid_argument,
                   "rank " + std::to_string(job.place().rank) +
                       " is new in a running job, and has called a collective before "
                       "hvd::elastic::run(): nobody answers it");
}

bool came_late() noexcept { return g_came_late.load(std::memory_order_relaxed); }

void enter_library_job(const std::string& whole_layout) {
  const std::string layout = told_layout(whole_layout);
  {
    const MutexLock lock(g_init);
    if (const auto options = std::exchange(g_waits, std::nullopt)) {
      // To open it anew would hold up the others.
      const auto gpu = library_job().hold_gpu();
      end_job(current_job());
      join_job(*options, layout);
    }
  }
  library_job().enter_elastic(layout);
  g_entered.store(true, std::memory_order_relaxed);
}

void start_library_job(const hvd::InitOptions& options) {
  const MutexLock lock(g_init);
  if (current_job() != nullptr) return;
  static const int registered = ::pthread_atfork(nullptr, nullptr, forget_in_child);
  if (registered != 0) throw hvd::Error(hvd::ErrorCode::internal, "pthread_atfork failed");
  g_no_job.store(kInitFailed, std::memory_order_release);
  const auto environment =
      g_has_joined ? std::nullopt : read_worker_environment(process_environment);
  if (!environment || !environment->is_late) return join_job(options);
  auto waiting = WorkerJob::waiting(process_environment, *environment);
  g_waits = options;
  g_came_late.store(true);
  g_job.store(waiting.release(), std::memory_order_release);
}

void end_library_job() noexcept {
  const MutexLock lock(g_init);
  g_waits.reset();
  end_job(current_job());
}

void leave_library_job() noexcept {
  const MutexLock lock(g_init);
  WorkerJob* const current = current_job();
  if (current == nullptr) return;
  current->leave_to_return();
  end_if_unusable(*current, nullptr);
  end_job(current);
}

void require_usable_gpu(const hvd::Error* reason) noexcept {
  const MutexLock lock(g_init);
  if (WorkerJob* const current = current_job(); current != nullptr)
    end_if_unusable(*current, reason);
}

}  // namespace hvdrun
