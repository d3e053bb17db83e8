// The end of an engine's operations when something has failed.
#include <chrono>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "worker/hvd/engine/engine.h"
#include "worker/hvd/engine/failure.h"

namespace hvdrun {

// A trouble that only this rank may have met, no memory say, in an operation that the others count
// on: the engine's communicator is then broken on all of them.
hvd::Error Engine::tell_others(const std::exception& trouble) {
  hvd::Error error(hvd::ErrorCode::internal,
                   std::string("it has failed within one rank: ") + trouble.what());
  communicator_->abort(error);
  try {
    communicator_->await_others(std::chrono::milliseconds(0));  // tells the others, and throws
  } catch (const hvd::Error&) {
  }
  return error;
}

// To whoever wants to know of it first; returns the error as its callers get it.
hvd::Error Engine::tell_failed(const hvd::Error& named) {
  if (options_.on_failed) options_.on_failed(named);
  return named;
}
hvd::Error Engine::tell_failed(const Operation& operation, const hvd::Error& error) {
  return tell_failed(named_error(operation, error));
}

void Engine::fail(const std::shared_ptr<Entry>& entry, const hvd::Error& error) {
  const hvd::Error named =
      named_error(entry->operation,
                  {error.code(), describe(entry->operation) + ": " + std::string(error.what())});
  {
    const MutexLock lock(mutex_);
    finish(entry, failure_of(named));
  }
  if (options_.on_failed) options_.on_failed(named);
}

// Nothing more can run: everything pending has failed.
void Engine::fail_all(const hvd::Error& error) {
  std::vector<hvd::Error> failures;
  {
    const MutexLock lock(mutex_);
    const std::list<std::shared_ptr<Entry>> pending = scheduler_.pending();
    for (const auto& entry : pending) {
      const Operation& operation = entry->operation;
      failures.push_back(
          named_error(operation, {error.code(), describe(operation) + ": " + error.what()}));
      finish(entry, failure_of(failures.back()));
    }
    if (scheduler_.joining()) {
      failures.emplace_back(error.code(), std::string("join: ") + error.what());
      joined_.failure.emplace(error.code(), failures.back().what());
      scheduler_.all_joined();
      done_.notify_all();
    }
  }
  if (options_.on_failed && !failures.empty()) options_.on_failed(failures.front());
}

}  // namespace hvdrun
