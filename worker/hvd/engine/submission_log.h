// A rank's submissions, as a report of a stall tells of them: how many, the last one, and the one
// that runs on its caller's thread. Not thread-safe: the engine's mutex guards it.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "worker/hvd/engine/entry.h"
#include "worker/hvd/engine/pending_report.h"

namespace hvdrun {

class SubmissionLog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void note(const Operation& operation, TimePoint at) {
    ++count_;
    last_at_ = at;
    last_kind_ = operation.kind;
    last_name_ = operation.name;
  }
  // An operation runs on its caller's thread from its submission on, and outlives that.
  void begin_direct(const Operation& operation) {
    direct_ = &operation;
    direct_since_ = last_at_;
  }
  void end_direct() { direct_ = nullptr; }

  // `pending`: in the order of submission.
  PendingReport report(const std::list<std::shared_ptr<Entry>>& pending, TimePoint now) const;

 private:
  std::uint64_t count_ = 0;
  TimePoint last_at_{};
  std::string last_name_;
  OpKind last_kind_ = OpKind::barrier;
  const Operation* direct_ = nullptr;
  TimePoint direct_since_{};
};

}  // namespace hvdrun
