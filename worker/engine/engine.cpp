#include "worker/engine/engine.h"

#include <string>
#include <utility>

#include "worker/client/quiet_thread.h"

namespace hvdrun {

Engine::Engine(std::unique_ptr<Communicator> communicator, std::chrono::milliseconds timeout,
               std::function<void(const hvd::Error&)> on_failed, const CoreShare& share)
    : communicator_(std::move(communicator)),
      timeout_(timeout),
      on_failed_(std::move(on_failed)),
      share_(share) {}

Engine::~Engine() { shutdown(); }

void Engine::run(const Operation& operation) {
  check(operation, *communicator_);
  bool may_spin = false;
  {
    const MutexLock lock(mutex_);
    check_open();
    may_spin = share_.fits(thread_.joinable() ? 1 : 0);
    if (running_ || !queue_.empty()) {
      const std::shared_ptr<Entry> entry = enqueue(operation);
      wait_done(*entry);
      if (entry->error) std::rethrow_exception(entry->error);
      return;
    }
    running_ = true;
  }
  execute_here(operation, may_spin);
}

void Engine::execute_here(const Operation& operation, bool may_spin) {
  struct Release {
    Engine& engine;
    ~Release() {
      const MutexLock lock(engine.mutex_);
      engine.running_ = false;
      // Also when shutdown() waits for us with an empty queue.
      if (!engine.queue_.empty() || engine.stop_) engine.work_.notify_all();
    }
  };
  const Release release{*this};
  execute_and_tell(operation, may_spin);
}

void Engine::execute_and_tell(const Operation& operation, bool may_spin) {
  try {
    execute(operation, *communicator_, {timeout_, may_spin});
  } catch (const hvd::Error& error) {
    if (on_failed_) on_failed_(error);
    throw;
  }
}

std::uint64_t Engine::submit(const Operation& operation) {
  check(operation, *communicator_);
  const MutexLock lock(mutex_);
  check_open();
  const std::shared_ptr<Entry> entry = enqueue(operation);
  const std::uint64_t id = next_id_++;
  handles_.emplace(id, entry);
  return id;
}

bool Engine::poll(std::uint64_t id) {
  const MutexLock lock(mutex_);
  const auto found = handles_.find(id);
  if (found == handles_.end())
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "poll: no operation has handle " + std::to_string(id));
  return found->second->done;
}

bool Engine::wait(std::uint64_t id, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const MutexLock lock(mutex_);
  const auto found = handles_.find(id);
  if (found == handles_.end())
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "wait: no operation has handle " + std::to_string(id));
  const std::shared_ptr<Entry> entry = found->second;
  while (!entry->done && std::chrono::steady_clock::now() < deadline)
    done_.wait_until(mutex_, deadline);
  return entry->done;
}

void Engine::synchronize(std::uint64_t id) {
  const MutexLock lock(mutex_);
  const auto found = handles_.find(id);
  if (found == handles_.end())
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "synchronize: no operation has handle " + std::to_string(id));
  const std::shared_ptr<Entry> entry = std::move(found->second);
  handles_.erase(found);
  wait_done(*entry);
  if (entry->error) std::rethrow_exception(entry->error);
}

void Engine::shutdown() noexcept {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    work_.notify_all();
    thread = std::move(thread_);
    // A blocking call of another thread is still in the communicator.
    while (running_ && !thread.joinable()) work_.wait(mutex_);
  }
  if (thread.joinable()) thread.join();
}

std::shared_ptr<Engine::Entry> Engine::enqueue(const Operation& operation) {
  if (!thread_.joinable()) thread_ = quiet_thread([this] { loop(); });
  auto entry = std::make_shared<Entry>(Entry{operation, false, nullptr});
  queue_.push_back(entry);
  work_.notify_one();
  return entry;
}

void Engine::wait_done(const Entry& entry) {
  // No deadline of its own: each operation in the queue has one, and once one fails, all do.
  while (!entry.done) done_.wait(mutex_);
}

void Engine::loop() {
  while (true) {
    std::shared_ptr<Entry> entry;
    {
      const MutexLock lock(mutex_);
      while (running_ || (queue_.empty() && !stop_)) work_.wait(mutex_);
      if (queue_.empty()) return;
      running_ = true;
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    std::exception_ptr error;
    try {
      execute_and_tell(entry->operation, false);
    } catch (...) {
      error = std::current_exception();
    }
    const MutexLock lock(mutex_);
    running_ = false;
    entry->error = error;
    entry->done = true;
    done_.notify_all();
  }
}

void Engine::check_open() {
  if (stop_) throw hvd::Error(hvd::ErrorCode::not_initialized, "hvd::shutdown() has been called");
}

}  // namespace hvdrun
