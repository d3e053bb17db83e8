// An operation on its way through the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/hvd/engine/operation.h"

namespace hvdrun {

struct Entry {
  explicit Entry(Operation what) : operation(std::move(what)) {}

  Operation operation;
  std::uint64_t name = 0;  // fingerprint, or kUnnamed and a number
  std::uint64_t meta = 0;  // fingerprint_of(operation)
  std::chrono::steady_clock::time_point submitted{};
  bool queued = false;  // the timeline was told so
  bool done = false;
  std::shared_ptr<const hvd::Error> error;
  std::function<void()> then;  // called once it is done
};

using Entries = std::vector<std::shared_ptr<Entry>>;

// In Entry::name, with the number of operations without a name that were submitted before.
inline constexpr std::uint64_t kUnnamed = std::uint64_t{1} << 63U;

}  // namespace hvdrun
