#include "worker/hvd/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "worker/hvd/client/quiet_thread.h"
#include "worker/hvd/engine/batch_timeline.h"
#include "worker/hvd/gpu/exit_gate.h"

namespace hvdrun {

Engine::Engine(std::unique_ptr<Communicator> communicator, EngineOptions options)
    : communicator_(std::move(communicator)),
      options_(std::move(options)),
      watch_{options_.stall_after, [this] { tell_stalled(); }},
      gpu_(options_.gpu == nullptr
               ? nullptr
               : std::make_unique<GpuExecutor>(options_.gpu, *communicator_, options_.rank_names,
                                               options_.gpu_connect_timeout,
                                               options_.gpu_leave_timeout, options_.gpu_id)),
      joined_(static_cast<std::size_t>(communicator_->size())),
      scheduler_(static_cast<std::size_t>(communicator_->size()), options_.fusion_bytes) {}

std::uint64_t Engine::first_id() {
  static std::atomic<std::uint64_t> engines{0};
  return (engines++ << 40) + 1;
}

Engine::~Engine() { shutdown(); }

CallOptions Engine::call(std::uint64_t fingerprint, bool may_spin) const {
  CallOptions options{
      .timeout = options_.timeout, .may_spin = may_spin, .fingerprint = fingerprint};
  if (options_.stall_after.count() > 0) options.watch = &watch_;
  return options;
}

std::string Engine::rank_text(std::size_t rank) const {
  return "rank " + std::to_string(rank < options_.rank_names.size() ? options_.rank_names[rank]
                                                                    : static_cast<int>(rank));
}

// Whoever has set running_ lets it go with this.
struct Engine::Running {
  explicit Running(Engine& of) : engine(of) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    const MutexLock lock(engine.mutex_);
    engine.running_ = false;
    engine.direct_ = nullptr;
    if (engine.scheduler_.idle() && !engine.stop_) return;
    // What others have submitted meanwhile, and shutdown() that waits for us with nothing pending.
    if (!engine.scheduler_.idle()) engine.start_thread();
    engine.work_.notify_all();
  }
  Engine& engine;
};

void Engine::run(const Operation& operation) {
  check(operation, *communicator_);
  if (operation.device) begin_device(operation);
  Scheduler::Direct direct = Scheduler::look_at(operation);
  bool may_spin = false;
  {
    const MutexLock lock(mutex_);
    check_open();
    const auto now = Clock::now();
    note_submitted(operation, now);
    may_spin = options_.share.fits(has_thread_ ? 1 : 0);
    if (running_ || !scheduler_.idle()) {
      const std::shared_ptr<Entry> entry = enqueue(operation);
      wait_done(*entry);
      if (entry->error) throw_copy(*entry->error);
      if (operation.device) gpu_->order(*operation.device);
      return;
    }
    scheduler_.begin(direct);
    running_ = true;
    direct_ = &operation;
    direct_since_ = now;
  }
  const Running running(*this);
  std::shared_ptr<Entry> entry;
  try {
    run_direct(operation, direct, may_spin);
    if (operation.device) gpu_->order(*operation.device);
    const MutexLock lock(mutex_);
    scheduler_.ran(direct);
    ++statistics_.operations;
    ++statistics_.batches;
    return;
  } catch (const Differs&) {
    const MutexLock lock(mutex_);
    direct_ = nullptr;
    entry = scheduler_.add(operation, direct, Clock::now());
    scheduler_.must_negotiate();
  } catch (const hvd::Error& error) {
    {
      const MutexLock lock(mutex_);
      scheduler_.failed(direct);
    }
    const hvd::Error named = name_error(operation, error);
    if (options_.on_failed) options_.on_failed(named);
    throw named;
  } catch (const std::exception& trouble) {
    {
      const MutexLock lock(mutex_);
      scheduler_.failed(direct);
    }
    const hvd::Error named = name_error(operation, tell_others(trouble));
    if (options_.on_failed) options_.on_failed(named);
    throw named;
  }
  drive(entry.get(), may_spin);
  if (entry->error) throw_copy(*entry->error);
  if (operation.device) gpu_->order(*operation.device);
}

// Until `until` is done, or nothing can be done at the moment.
void Engine::drive(const Entry* until, bool may_spin) {
  while (true) {
    Scheduler::Step step;
    {
      const MutexLock lock(mutex_);
      if (until != nullptr && until->done) return;
      if (until == nullptr && released_) return;
      step = scheduler_.next(Clock::now(), until != nullptr || waiters_ > 0 || stop_);
      if (step.kind == Scheduler::Step::Kind::none) {
        if (until == nullptr) running_ = false;
        return;
      }
      awaiting_ = step.kind == Scheduler::Step::Kind::await;
      if (step.kind == Scheduler::Step::Kind::wait) {
        waiting_ = true;
        work_.wait_until(mutex_, step.until);
        waiting_ = false;
        continue;
      }
    }
    try {
      switch (step.kind) {
        case Scheduler::Step::Kind::run:
          run_batch(step.batch, may_spin, Agreed::no);
          break;
        case Scheduler::Step::Kind::negotiate:
          negotiate();
          break;
        default:
          await();
      }
    } catch (const hvd::Error& error) {
      fail_all(error);
    } catch (const std::exception& trouble) {
      fail_all(tell_others(trouble));
    }
    call_thens();
  }
}

void Engine::call_thens() {
  std::vector<std::function<void()>> bodies;
  {
    const MutexLock lock(mutex_);
    if (thens_.empty()) return;
    bodies.swap(thens_);
  }
  {
    // They may be LibTorch's, on a GPU: exit() waits for one that is under way.
    const DriverPass pass;
    for (const auto& body : bodies) body();
  }
  const MutexLock lock(mutex_);
  owed_thens_ -= static_cast<int>(bodies.size());
  done_.notify_all();
}

void Engine::finish(const std::shared_ptr<Entry>& entry, std::shared_ptr<const hvd::Error> error) {
  if (error) scheduler_.failed(entry);
  entry->error = std::move(error);
  entry->done = true;
  if (entry->then) thens_.push_back(std::exchange(entry->then, nullptr));
  done_.notify_all();
}

std::uint64_t Engine::submit(const Operation& operation) {
  check(operation, *communicator_);
  if (operation.device) begin_device(operation);
  const MutexLock lock(mutex_);
  check_open();
  const std::shared_ptr<Entry> entry = enqueue(operation);
  note_submitted(operation, entry->submitted);
  const std::uint64_t id = next_id_++;
  handles_.emplace(id, entry);
  return id;
}

const std::shared_ptr<Entry>& Engine::entry_of(std::uint64_t id, const char* call) {
  const auto found = handles_.find(id);
  if (found == handles_.end())
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     std::string(call) + ": no operation has handle " + std::to_string(id));
  return found->second;
}

bool Engine::poll(std::uint64_t id) {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mutex_);
    entry = entry_of(id, "poll");
    if (!entry->done) return false;
  }
  return has_ended(*entry);
}

// Of an entry that is done.
bool Engine::has_ended(const Entry& entry) const {
  return entry.error || !entry.operation.device || gpu_->has_ended(*entry.operation.device);
}

bool Engine::wait(std::uint64_t id, std::chrono::milliseconds limit) {
  // A limit that is meant as none must not overflow the clock.
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const auto deadline = Clock::now() + std::min(limit, kLongest);
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mutex_);
    entry = entry_of(id, "wait");
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
    entry = entry_of(id, "synchronize");
    handles_.erase(id);
    wait_done(*entry);
  }
  if (entry->error) throw_copy(*entry->error);
  if (entry->operation.device) gpu_->order(*entry->operation.device);
}

void Engine::then(std::uint64_t id, std::function<void()> body) {
  {
    const MutexLock lock(mutex_);
    const std::shared_ptr<Entry>& entry = entry_of(id, "then");
    if (!entry->done) {
      entry->then = std::move(body);
      ++owed_thens_;
      return;
    }
  }
  body();
}

int Engine::join() {
  const MutexLock lock(mutex_);
  check_open();
  if (joined_.size() == 1) return 0;
  // What was submitted before comes first, also what follows from it.
  begin_waiting();
  while (owed_thens_ > 0) done_.wait(mutex_);
  --waiters_;
  scheduler_.join();
  start_thread();
  begin_waiting();
  work_.notify_all();
  if (awaiting_) communicator_->wake();
  while (scheduler_.joining()) done_.wait(mutex_);
  --waiters_;
  if (join_failed_) throw_copy(*join_failed_);
  return last_joined_;
}

void Engine::shutdown() noexcept {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    work_.notify_all();
    // A blocking call of another thread is still in the communicator.
    while (running_ && !has_thread_) work_.wait(mutex_);
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
  if (!waiting_ || scheduler_.ready()) work_.notify_one();
  if (awaiting_) communicator_->wake();
  return entry;
}

void Engine::begin_waiting() {
  ++waiters_;
  if (waiting_) work_.notify_all();
}

void Engine::wait_done(const Entry& entry) {
  // No deadline of its own: each operation has one, and once one fails, all do.
  begin_waiting();
  while (!entry.done) done_.wait(mutex_);
  --waiters_;
}

void Engine::loop() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (running_ || (scheduler_.idle() && !stop_)) work_.wait(mutex_);
      if (scheduler_.idle()) return;
      running_ = true;
    }
    released_ = false;
    drive(nullptr, false);
  }
}

void Engine::check_open() {
  if (stop_) throw hvd::Error(hvd::ErrorCode::not_initialized, "hvd::shutdown() has been called");
  if (scheduler_.joining())
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "this rank has joined; nothing can be called before all ranks have");
}

void Engine::note_submitted(const Operation& operation, Clock::time_point at) {
  ++submitted_;
  last_at_ = at;
  last_kind_ = operation.kind;
  last_name_ = operation.name;
}

EngineStatistics Engine::statistics() {
  const MutexLock lock(mutex_);
  return statistics_;
}

PendingReport Engine::pending_report() {
  PendingReport report;
  const auto now = Clock::now();
  const auto age = [&](Clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
  };
  const auto words = [](const Operation& operation) {
    return operation.name.empty() ? describe(operation) : operation.name;
  };
  const MutexLock lock(mutex_);
  if (direct_ != nullptr) report.oldest.push_back({words(*direct_), age(direct_since_)});
  for (const auto& entry : scheduler_.pending()) {
    if (report.oldest.size() == PendingReport::kMost) break;
    report.oldest.push_back({words(entry->operation), age(entry->submitted)});
  }
  report.pending = scheduler_.pending().size() + (direct_ != nullptr ? 1 : 0);
  report.submitted = submitted_;
  report.last_submitted_at = last_at_;
  report.joined = scheduler_.joining();
  if (submitted_ > 0)
    report.last_submitted =
        last_name_.empty() ? std::string(name_of(last_kind_)) + (" #" + std::to_string(submitted_))
                           : last_name_;
  return report;
}

void Engine::tell_stalled() {
  if (options_.on_stalled) options_.on_stalled(pending_report());
}

}  // namespace hvdrun
