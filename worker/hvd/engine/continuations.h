// The functions that Engine::then() has been given: owed from then until they have returned. Not
// thread-safe: the engine's mutex guards it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "worker/hvd/engine/entry.h"

namespace hvdrun {

class Continuations {
 public:
  using Body = std::function<void()>;

  void add(Entry& entry, Body body) {
    entry.then = std::move(body);
    ++owed_;
  }
  // The entry is done: its function may be called.
  void release(Entry& entry) {
    if (entry.then) due_.push_back(std::exchange(entry.then, nullptr));
  }
  // Those that may be called; whoever takes them calls them and tells with returned().
  std::vector<Body> take() { return std::exchange(due_, {}); }
  void returned(const std::vector<Body>& bodies) { owed_ -= static_cast<int>(bodies.size()); }

  // Some have not returned, those of pending operations too.
  bool any_owed() const { return owed_ > 0; }

 private:
  std::vector<Body> due_;
  int owed_ = 0;
};

}  // namespace hvdrun
