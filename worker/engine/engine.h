// Runs collectives on a communicator, one at a time, in the order in which they were submitted.
// A blocking call that finds nothing under way runs on its caller's thread; everything else goes
// through one thread, started by the first operation that needs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>

#include "common/mutex.h"
#include "worker/comm/communicator.h"
#include "worker/engine/core_share.h"
#include "worker/engine/operation.h"

namespace hvdrun {

class Engine {
 public:
  // `on_failed` is told the error of every operation that fails in the communicator, on the thread
  // that ran it, before anybody sees it. Callers of run() spin while they wait when `share` has a
  // core for each thread; the engine's own thread never does.
  Engine(std::unique_ptr<Communicator> communicator, std::chrono::milliseconds timeout,
         std::function<void(const hvd::Error&)> on_failed = {}, const CoreShare& share = {});
  // shutdown()
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // For rank(), size(), abort() and peer_gone().
  Communicator& communicator() { return *communicator_; }

  // Blocks until the operation is done; throws its error.
  void run(const Operation& operation) HVD_EXCLUDES(mutex_);
  // Returns the number for poll() and synchronize().
  std::uint64_t submit(const Operation& operation) HVD_EXCLUDES(mutex_);
  bool poll(std::uint64_t id) HVD_EXCLUDES(mutex_);
  bool wait(std::uint64_t id, std::chrono::milliseconds limit) HVD_EXCLUDES(mutex_);
  void synchronize(std::uint64_t id) HVD_EXCLUDES(mutex_);

  // Finishes what was submitted; every operation ends by its deadline. Later calls throw.
  void shutdown() noexcept HVD_EXCLUDES(mutex_);

 private:
  struct Entry {
    Operation operation;
    bool done = false;
    std::exception_ptr error;
  };

  std::shared_ptr<Entry> enqueue(const Operation& operation) HVD_REQUIRES(mutex_);
  void wait_done(const Entry& entry) HVD_REQUIRES(mutex_);
  void execute_here(const Operation& operation, bool may_spin) HVD_EXCLUDES(mutex_);
  void execute_and_tell(const Operation& operation, bool may_spin) HVD_EXCLUDES(mutex_);
  void loop() HVD_EXCLUDES(mutex_);
  void check_open() HVD_REQUIRES(mutex_);

  const std::unique_ptr<Communicator> communicator_;
  const std::chrono::milliseconds timeout_;
  const std::function<void(const hvd::Error&)> on_failed_;
  const CoreShare share_;

  Mutex mutex_;
  CondVar work_;                                 // the thread has something to do
  CondVar done_;                                 // an entry is done
  bool running_ HVD_GUARDED_BY(mutex_) = false;  // somebody is in the communicator
  bool stop_ HVD_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<Entry>> queue_ HVD_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> handles_ HVD_GUARDED_BY(mutex_);
  std::uint64_t next_id_ HVD_GUARDED_BY(mutex_) = 1;
  std::thread thread_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvdrun
