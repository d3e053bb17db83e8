#include "worker/hvd/engine/submission_log.h"

namespace hvdrun {

PendingReport SubmissionLog::report(const std::list<std::shared_ptr<Entry>>& pending,
                                    TimePoint now) const {
  PendingReport report;
  const auto tell = [&](const Operation& operation, TimePoint since) {
    report.oldest.push_back({operation.name.empty() ? describe(operation) : operation.name,
                             std::chrono::duration_cast<std::chrono::milliseconds>(now - since)});
  };
  if (direct_ != nullptr) tell(*direct_, direct_since_);
  for (const auto& entry : pending) {
    if (report.oldest.size() == PendingReport::kMost) break;
    tell(entry->operation, entry->submitted);
  }
  report.pending = pending.size() + (direct_ != nullptr ? 1 : 0);
  report.submitted = count_;
  report.last_submitted_at = last_at_;
  if (count_ > 0)
    report.last_submitted = last_name_.empty()
                                ? std::string(name_of(last_kind_)) + (" #" + std::to_string(count_))
                                : last_name_;
  return report;
}

}  // namespace hvdrun
