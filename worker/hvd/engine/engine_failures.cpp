// What becomes of an engine's operations when something has failed.
#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "worker/hvd/engine/engine.h"

namespace hvdrun {

hvd::Error Engine::name_error(const Operation& operation, const hvd::Error& error) {
  std::string text = error.what();
  // The communicator calls it by what runs: "allgather(int64, 3 elements in all): ...".
  const std::size_t end = text.find("): ");
  if (!operation.description.empty() && end != text.npos &&
      text.starts_with(name_of(operation.kind) + std::string("(")))
    text.replace(0, end + 1, operation.description);
  if (!operation.name.empty()) text.insert(0, "'" + operation.name + "': ");
  return {error.code(), text};
}

// What only this rank may have met, no memory say, in an operation that the others count on: the
// engine's communicator is then broken on all of them.
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

// Copies that share nothing: copies of an exception share their text, and the last one that goes
// frees it, on whatever thread.
std::shared_ptr<const hvd::Error> Engine::failure_of(const hvd::Error& error) {
  return std::make_shared<const hvd::Error>(error.code(), error.what());
}

void Engine::throw_copy(const hvd::Error& error) { throw hvd::Error(error.code(), error.what()); }

// Nothing more can run: everything pending has failed.
void Engine::fail_all(const hvd::Error& error) {
  std::vector<hvd::Error> failures;
  {
    const MutexLock lock(mutex_);
    const std::list<std::shared_ptr<Entry>> pending = scheduler_.pending();
    for (const auto& entry : pending) {
      const Operation& operation = entry->operation;
      failures.push_back(
          name_error(operation, {error.code(), describe(operation) + ": " + error.what()}));
      finish(entry, failure_of(failures.back()));
    }
    if (scheduler_.joining()) {
      failures.emplace_back(error.code(), std::string("join: ") + error.what());
      join_failed_.emplace(error.code(), failures.back().what());
      scheduler_.all_joined();
      done_.notify_all();
    }
  }
  if (options_.on_failed && !failures.empty()) options_.on_failed(failures.front());
}

}  // namespace hvdrun
