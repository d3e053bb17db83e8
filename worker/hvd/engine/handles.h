// The numbers by which callers know their operations. Not thread-safe: the engine's mutex guards
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include <hvd/hvd.h>

#include "worker/hvd/engine/entry.h"

namespace hvdrun {

class Handles {
 public:
  std::uint64_t add(std::shared_ptr<Entry> entry) {
    entries_.emplace(next_, std::move(entry));
    return next_++;
  }
  // Throws Error(invalid_argument) in the words of `call` for a number that there is not.
  const std::shared_ptr<Entry>& at(std::uint64_t id, const char* call) const {
    const auto found = entries_.find(id);
    if (found == entries_.end())
      throw hvd::Error(hvd::ErrorCode::invalid_argument,
                       std::string(call) + ": no operation has handle " + std::to_string(id));
    return found->second;
  }
  std::shared_ptr<Entry> take(std::uint64_t id, const char* call) {
    std::shared_ptr<Entry> entry = at(id, call);
    entries_.erase(id);
    return entry;
  }

 private:
  // Beyond those of any engine before: a handle that outlives its job names nothing in the next.
  static std::uint64_t first() {
    static std::atomic<std::uint64_t> engines{0};
    return (engines++ << 40) + 1;
  }

  std::uint64_t next_ = first();
  std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace hvdrun
