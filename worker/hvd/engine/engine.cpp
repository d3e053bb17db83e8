#include "worker/hvd/engine/engine.h"

#include <algorithm>
#include <utility>

#include "worker/hvd/client/quiet_thread.h"
#include "worker/hvd/engine/batch_timeline.h"
#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/engine/failure.h"
#include "worker/hvd/engine/operation_check.h"

namespace hvdrun {
namespace {

// wait() looks at a GPU so often.
constexpr std::chrono::microseconds kLook{100};

}  // namespace

Engine::Engine(std::unique_ptr<Communicator> communicator, EngineOptions options)
    : communicator_(std::move(communicator)),
      options_(std::move(options)),
      watch_{options_.stall_after, [this] { tell_stalled(); }},
      gpu_(options_.gpu == nullptr
               ? nullptr
               : std::make_unique<GpuExecutor>(options_.gpu, *communicator_, options_.rank_names,
                                               options_.gpu_connect_timeout,
                                               options_.gpu_leave_timeout, options_.gpu_id)),
      peers_{{}, std::vector<bool>(static_cast<std::size_t>(communicator_->size()))},
      stalls_(options_.stall_after),
      scheduler_(static_cast<std::size_t>(communicator_->size()), options_.fusion_bytes) {}

Engine::~Engine() { shutdown(); }

std::string Engine::rank_text(std::size_t rank) const {
  return "rank " + std::to_string(rank < options_.rank_names.size() ? options_.rank_names[rank]
                                                                    : static_cast<int>(rank));
}

std::uint64_t Engine::submit(const Operation& operation) {
  check(operation, *communicator_);
  if (operation.device) begin_on_gpu(operation);
  const MutexLock lock(mutex_);
  check_open();
  const std::shared_ptr<Entry> entry = enqueue(operation);
  submissions_.note(operation, entry->submitted);
  return handles_.add(entry);
}

bool Engine::poll(std::uint64_t id) {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mutex_);
    entry = handles_.at(id, "poll");
    if (!entry->done) return false;
  }
  return has_ended(*entry);
}

bool Engine::wait(std::uint64_t id, std::chrono::milliseconds limit) {
  // A limit that is meant as none must not overflow the clock.
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const auto deadline = Clock::now() + std::min(limit, kLongest);
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mutex_);
    entry = handles_.at(id, "wait");
    begin_waiting();
    while (!entry->done && Clock::now() < deadline) done_.wait_until(mutex_, deadline);
    --waiters_;
    if (!entry->done) return false;
  }
  // Only for those who want to know: a GPU wakes nobody.
  while (!has_ended(*entry)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

void Engine::synchronize(std::uint64_t id) {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mutex_);
    entry = handles_.take(id, "synchronize");
    wait_done(*entry);
  }
  if (entry->error) throw_copy(*entry->error);
  order_on_gpu(entry->operation);
}

void Engine::then(std::uint64_t id, std::function<void()> body) {
  {
    const MutexLock lock(mutex_);
    const std::shared_ptr<Entry>& entry = handles_.at(id, "then");
    if (!entry->done) return continuations_.add(*entry, std::move(body));
  }
  body();
}

int Engine::join() {
  const MutexLock lock(mutex_);
  check_open();
  if (communicator_->size() == 1) return 0;
  // Earlier submissions come first, also what follows from them.
  begin_waiting();
  while (continuations_.any_owed()) done_.wait(mutex_);
  --waiters_;
  scheduler_.join();
  start_thread();
  begin_waiting();
  work_.notify_all();
  if (occupancy_ == Occupancy::awaiting) communicator_->wake();
  while (scheduler_.joining()) done_.wait(mutex_);
  --waiters_;
  if (joined_.failure) throw_copy(*joined_.failure);
  return joined_.last;
}

void Engine::shutdown() noexcept {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    work_.notify_all();
    // A blocking call of another thread is still in the communicator.
    while (occupancy_ != Occupancy::free && !has_thread_) work_.wait(mutex_);
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  if (gpu_) gpu_->close();
}

void Engine::start_thread() {
  if (has_thread_) return;
  thread_ = quiet_thread([this] { loop(); });
  has_thread_ = true;
}

std::shared_ptr<Entry> Engine::enqueue(const Operation& operation) {
  start_thread();
  std::shared_ptr<Entry> entry = scheduler_.add(operation, Clock::now());
  if (options_.timeline != nullptr && options_.timeline->on()) {
    entry->queued = true;
    options_.timeline->begin(
        BatchTimeline::lane_of(entry->operation, entry->name, options_.timeline_suffix),
        TimelinePhase::queue);
  }
  // A thread that waits for more is woken when there is enough.
  if (occupancy_ != Occupancy::lingering || scheduler_.ready()) work_.notify_one();
  if (occupancy_ == Occupancy::awaiting) communicator_->wake();
  return entry;
}

void Engine::begin_waiting() {
  ++waiters_;
  if (occupancy_ == Occupancy::lingering) work_.notify_all();
}

void Engine::wait_done(const Entry& entry) {
  // No deadline of its own: each operation has one, and once one fails, all do.
  begin_waiting();
  while (!entry.done) done_.wait(mutex_);
  --waiters_;
}

void Engine::check_open() {
  if (stopping_)
    throw hvd::Error(hvd::ErrorCode::not_initialized, "hvd::shutdown() has been called");
  if (scheduler_.joining())
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "this rank has joined; nothing can be called before all ranks have");
}

// The work on the caller's stream by now comes before the operation.
void Engine::begin_on_gpu(const Operation& operation) {
  if (!gpu_)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     describe(operation) + ": this rank has no GPU: " + options_.no_gpu);
  if (!operation.device->split) gpu_->mark(*operation.device);
}

// Later work on the caller's stream runs after the operation.
void Engine::order_on_gpu(const Operation& operation) const {
  if (operation.device) gpu_->order(*operation.device);
}

// For an entry that is done.
bool Engine::has_ended(const Entry& entry) const {
  return entry.error || !entry.operation.device || gpu_->has_ended(*entry.operation.device);
}

std::unique_ptr<NcclCommunicator> Engine::split_gpu(std::vector<int> members) {
  if (!gpu_) return nullptr;
  Operation operation;  // a barrier: no other operation runs beside it, on any rank
  operation.device = std::make_shared<DeviceUse>();
  operation.device->split = std::make_shared<GpuSplit>();
  operation.device->split->members = std::move(members);
  run(operation);
  return std::move(operation.device->split->made);
}

void Engine::adopt_gpu(std::unique_ptr<NcclCommunicator> made) { gpu_->adopt(std::move(made)); }

EngineStatistics Engine::statistics() {
  const MutexLock lock(mutex_);
  return statistics_;
}

PendingReport Engine::pending_report() {
  const auto now = Clock::now();
  const MutexLock lock(mutex_);
  PendingReport report = submissions_.report(scheduler_.pending(), now);
  report.joined = scheduler_.joining();
  return report;
}

void Engine::tell_stalled() {
  if (options_.on_stalled) options_.on_stalled(pending_report());
}

}  // namespace hvdrun
