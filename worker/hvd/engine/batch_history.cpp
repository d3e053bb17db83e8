#include "worker/hvd/engine/batch_history.h"

#include <utility>

#include "worker/hvd/engine/fingerprint.h"

namespace hvdrun {

std::uint64_t BatchHistory::fingerprint(const Member& member) {
  return Fingerprint().add(member.name).add(member.meta).value();
}

std::uint64_t BatchHistory::fingerprint(const Batch& batch) {
  if (batch.size() == 1) return fingerprint(batch.front());
  Fingerprint print;
  for (const Member& member : batch) print.add(member.name).add(member.meta);
  return print.value();
}

void BatchHistory::ran(const Member& member, std::uint64_t fingerprint) {
  if (!repeated(fingerprint)) changed({member}, fingerprint);
}

void BatchHistory::ran(const Batch& batch, std::uint64_t fingerprint) {
  if (!repeated(fingerprint)) changed(batch, fingerprint);
}

bool BatchHistory::repeated(std::uint64_t fingerprint) {
  if (current_ == nullptr || current_->next != fingerprint || current_->after == nullptr)
    return false;
  if (current_->times < kSettled) ++current_->times;
  current_ = current_->after;
  last_ = fingerprint;
  return true;
}

void BatchHistory::changed(Batch batch, std::uint64_t fingerprint) {
  // Programs whose operations are always new.
  if (states_.size() >= kMostStates) {
    states_.clear();
    current_ = nullptr;
  }
  auto& after = states_[Fingerprint().add(last_).add(fingerprint).value()];
  if (!after) after = std::make_unique<State>();
  if (current_ != nullptr) {
    current_->next = fingerprint;
    current_->times = 1;
    current_->batch = std::move(batch);
    current_->after = after.get();
  }
  current_ = after.get();
  last_ = fingerprint;
}

}  // namespace hvdrun
