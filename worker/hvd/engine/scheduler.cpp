#include "worker/hvd/engine/scheduler.h"

#include <utility>

#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/engine/fingerprint.h"

namespace hvdrun {
namespace {

bool is_unnamed(std::uint64_t name) { return (name & kUnnamed) != 0; }

std::uint64_t name_of(const std::string& name) {
  return Fingerprint().add(std::string_view(name)).value() & ~kUnnamed;
}

std::uint64_t bytes_of(const Operation& operation) {
  return elements_of(operation) * element_size(operation.reduction.type);
}

// As the history knows it.
std::uint64_t general(std::uint64_t name) { return is_unnamed(name) ? kUnnamed : name; }

BatchHistory::Batch members_of(const Entries& batch) {
  BatchHistory::Batch members;
  members.reserve(batch.size());
  for (const auto& entry : batch) members.push_back({general(entry->name), entry->meta});
  return members;
}

// Operations of one kind can be one operation.
std::uint64_t kind_of(const Operation& operation) {
  const Reduction& how = operation.reduction;
  return Fingerprint()
             .add(static_cast<std::uint64_t>(operation.device ? 1 : 0) << 16U |
                  static_cast<std::uint64_t>(operation.device && operation.device->captured ? 1 : 0)
                      << 24U |
                  static_cast<std::uint64_t>(how.type) << 8U | static_cast<std::uint64_t>(how.op))
             .add(how.prescale)
             .add(how.postscale)
             .value() |
         1U;
}

}  // namespace

std::shared_ptr<Entry> Scheduler::add(Operation operation, TimePoint now) {
  BatchHistory::Member member = look_at(operation).member;
  if (is_unnamed(member.name))
    member.name = kUnnamed | unnamed_submitted_;
  else if (by_name_.count(member.name) != 0 || member.name == direct_)
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     describe(operation) + ": an operation named '" + operation.name +
                         "' is under way on this rank; wait for it, or use another name");
  if (is_unnamed(member.name)) ++unnamed_submitted_;
  return insert(std::move(operation), member, now);
}

Scheduler::Direct Scheduler::look_at(const Operation& operation) {
  Direct direct;
  direct.member.name = operation.name.empty() ? kUnnamed : name_of(operation.name);
  direct.member.meta = fingerprint_of(operation);
  direct.fingerprint = BatchHistory::fingerprint(direct.member);
  return direct;
}

void Scheduler::begin(Direct& direct) {
  if (is_unnamed(direct.member.name)) direct.member.name = kUnnamed | unnamed_submitted_++;
  direct_ = direct.member.name;
}

void Scheduler::ran(const Direct& direct) {
  failed(direct);
  history_.ran({general(direct.member.name), direct.member.meta}, direct.fingerprint);
}

void Scheduler::failed(const Direct& direct) {
  direct_ = 0;
  if (is_unnamed(direct.member.name)) ++unnamed_done_;
  settle();
}

std::shared_ptr<Entry> Scheduler::add(Operation operation, const Direct& direct, TimePoint now) {
  direct_ = 0;
  return insert(std::move(operation), direct.member, now);
}

std::shared_ptr<Entry> Scheduler::insert(Operation operation, const BatchHistory::Member& member,
                                         TimePoint now) {
  auto entry = std::make_shared<Entry>(std::move(operation));
  entry->name = member.name;
  entry->meta = member.meta;
  entry->submitted = now;
  ++submitted_;
  last_submit_ = now;
  by_name_.emplace(member.name, pending_.insert(pending_.end(), entry));
  if (may_fuse(entry->operation)) fusible_bytes_ += bytes_of(entry->operation);
  if (!expecting_) return entry;
  const auto found = expected_names_.find(member.name);
  if (found != expected_names_.end() && found->second == member.meta) --missing_;
  return entry;
}

bool Scheduler::may_fuse(const Operation& operation) const {
  return operation.kind == OpKind::allreduce && !operation.name.empty() &&
         operation.reduction.op != hvd::ReduceOp::adasum && fusion_bytes_ > 0 &&
         bytes_of(operation) <= kMostFused;
}

Scheduler::Step Scheduler::next(TimePoint now, bool hurried) {
  if (idle()) return {};
  if (ranks_ == 1 && !pending_.empty()) return {Step::Kind::run, {pending_.front()}};
  if (must_negotiate_) return {Step::Kind::negotiate};
  if (starved_ || others_joined_ || joined()) {
    const bool nothing_new = starved_ && submitted_ == offered_;
    return {nothing_new ? Step::Kind::await : Step::Kind::negotiate};
  }
  if (!looked_) expect();
  const std::shared_ptr<Entry>& head = pending_.front();
  // Those without a name have an order of their own: nothing is gained by waiting.
  if (is_unnamed(head->name)) return {Step::Kind::run, {head}};
  const bool complete = expecting_ && missing_ == 0;
  const bool alone = pending_.size() == 1;
  if (complete && (settled_ || !may_fuse(head->operation))) return {Step::Kind::run, expected()};
  // One that is not to run with others is tried as it comes, while there is nothing better.
  if (!expecting_ && !may_fuse(head->operation)) return {Step::Kind::run, {head}};
  const TimePoint until = last_submit_ + (settled_ ? kPause : kLearningPause);
  if (!hurried && now < until && fusible_bytes_ < fusion_bytes_)
    return {Step::Kind::wait, {}, until};
  if (complete && pending_.size() == expected_.size()) return {Step::Kind::run, expected()};
  return alone ? Step{Step::Kind::run, {head}} : Step{Step::Kind::negotiate};
}

// From here on add() counts what is missing of the prediction.
void Scheduler::expect() {
  looked_ = true;
  expected_.clear();
  expected_names_.clear();
  missing_ = 0;
  const BatchHistory::Batch* const batch = history_.predicted();
  expecting_ = batch != nullptr;
  settled_ = history_.settled();
  if (batch == nullptr) return;
  std::uint64_t unnamed = unnamed_done_;
  for (BatchHistory::Member member : *batch) {
    if (is_unnamed(member.name)) member.name = kUnnamed | unnamed++;
    expected_.push_back(member);
    expected_names_.emplace(member.name, member.meta);
    const auto found = by_name_.find(member.name);
    if (found == by_name_.end() || (*found->second)->meta != member.meta) ++missing_;
  }
}

Entries Scheduler::expected() const {
  Entries batch;
  batch.reserve(expected_.size());
  for (const BatchHistory::Member& member : expected_) batch.push_back(*by_name_.at(member.name));
  return batch;
}

std::uint64_t Scheduler::fingerprint(const Entries& batch) {
  return BatchHistory::fingerprint(members_of(batch));
}

void Scheduler::ran(const Entries& batch) {
  const BatchHistory::Batch members = members_of(batch);
  history_.ran(members, BatchHistory::fingerprint(members));
  for (const auto& entry : batch) remove(entry);
}

void Scheduler::failed(const std::shared_ptr<Entry>& entry) { remove(entry); }

void Scheduler::remove(const std::shared_ptr<Entry>& entry) {
  settle();
  const auto found = by_name_.find(entry->name);
  if (found == by_name_.end()) return;
  if (is_unnamed(entry->name)) ++unnamed_done_;
  if (may_fuse(entry->operation)) fusible_bytes_ -= bytes_of(entry->operation);
  pending_.erase(found->second);
  by_name_.erase(found);
}

// Something has run: what was predicted, or learnt from the others, is of before.
void Scheduler::settle() {
  looked_ = false;
  expecting_ = false;
  settled_ = false;
  starved_ = false;
}

Offer Scheduler::offer() {
  Offer offer;
  offer.joined = joined();
  offer.proposals.reserve(pending_.size());
  for (const auto& entry : pending_) {
    Proposal proposal{entry->name, entry->meta, 0, 0};
    if (may_fuse(entry->operation)) {
      proposal.kind = kind_of(entry->operation);
      proposal.bytes = bytes_of(entry->operation);
    }
    offer.proposals.push_back(proposal);
  }
  offered_ = submitted_;
  return offer;
}

void Scheduler::agreed(const std::vector<Offer>& offers, const Agreement& agreement) {
  must_negotiate_ = false;
  looked_ = false;
  others_joined_ = false;
  for (const Offer& offer : offers) others_joined_ = others_joined_ || offer.joined;
  starved_ = agreement.batches.empty() && agreement.mismatches.empty() && !agreement.all_joined;
}

std::shared_ptr<Entry> Scheduler::find(std::uint64_t name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : *found->second;
}

void Scheduler::join() {
  joining_ = true;
  starved_ = false;
}

void Scheduler::all_joined() {
  joining_ = false;
  others_joined_ = false;
  // Those who joined early have missed some.
  unnamed_submitted_ = 0;
  unnamed_done_ = 0;
}

}  // namespace hvdrun
