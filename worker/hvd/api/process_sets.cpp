#include "worker/hvd/api/process_sets.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

namespace hvdrun {
namespace {

using hvd::Error;
using hvd::ErrorCode;

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, ranks.size()); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

[[noreturn]] void invalid(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

}  // namespace

std::string RankSet::text() const {
  if (id == 0) return "the global process set";
  return "process set " + (name.empty() ? std::to_string(id) : "'" + name + "'") + " (ranks " +
         list_of(ranks) + ")";
}

std::string RankSet::short_text() const {
  return name.empty() ? "set " + std::to_string(id) : "'" + name + "'";
}

bool RankSet::includes(int rank) const {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

int RankSet::place_of(int rank) const {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

ProcessSets::ProcessSets(std::unique_ptr<Engine> world, int rank, int size, Factory factory)
    : world_(std::make_shared<RankSet>()), rank_(rank), size_(size), factory_(std::move(factory)) {
  world_->ranks.resize(static_cast<std::size_t>(size));
  std::iota(world_->ranks.begin(), world_->ranks.end(), 0);
  world_->place = rank;
  world_->engine = std::move(world);
  sets_.emplace(0, world_);
}

std::shared_ptr<RankSet> ProcessSets::at(int id) {
  if (id == 0) return world_;
  const MutexLock lock(mutex_);
  const auto found = sets_.find(id);
  if (found == sets_.end())
    invalid("there is no process set " + std::to_string(id) + "; it may have been removed");
  return found->second;
}

std::vector<int> ProcessSets::ids() {
  const MutexLock lock(mutex_);
  std::vector<int> ids;
  ids.reserve(sets_.size());
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

std::shared_ptr<RankSet> ProcessSets::named(const std::string& name) {
  if (name.empty()) invalid("process_set: an empty name");
  const MutexLock lock(mutex_);
  for (const auto& [id, set] : sets_)
    if (id != 0 && set->name == name) return set;
  invalid("there is no process set named '" + name + "'");
}

void ProcessSets::check_new(const std::vector<int>& ranks, const std::string& name) {
  if (ranks.empty()) invalid("add_process_set: no ranks");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size_)
      invalid("add_process_set: rank " + std::to_string(ranks[i]) + " is not a rank of 0 to " +
              std::to_string(size_ - 1));
    if (i > 0 && ranks[i] == ranks[i - 1])
      invalid("add_process_set: rank " + std::to_string(ranks[i]) + " is there twice");
  }
  const MutexLock lock(mutex_);
  for (const auto& [id, set] : sets_) {
    if (id != 0 && !name.empty() && set->name == name)
      invalid("add_process_set: there is a " + set->text() + " already");
    if (set->ranks == ranks) invalid("add_process_set: " + set->text() + " has the same ranks");
  }
}

std::vector<std::string> ProcessSets::exchange(const std::string& own, const char* call) {
  Operation sizes;
  std::uint64_t size = own.size();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size_));
  sizes.kind = OpKind::allgather;
  sizes.input = &size;
  sizes.output = all.data();
  sizes.count = 1;
  sizes.reduction.type = hvd::DataType::int64;
  sizes.description = call;
  world().run(sizes);
  Operation texts;
  texts.kind = OpKind::allgather;
  texts.counts.assign(all.begin(), all.end());
  std::string joint(sum_of(texts.counts.data(), texts.counts.size()), '\0');
  texts.input = own.data();
  texts.output = joint.data();
  texts.reduction.type = hvd::DataType::uint8;
  texts.varying_counts = true;
  texts.description = call;
  world().run(texts);
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (const std::size_t count : texts.counts) {
    parts.push_back(joint.substr(begin, count));
    begin += count;
  }
  return parts;
}

// An error on every rank where they said different things, or one of them called what makes no
// sense. `look` returns what this rank calls it for, or throws that.
template <class Look>
void ProcessSets::agree(const char* call, const Look& look) {
  constexpr char kRefuses = '!';
  std::string own;
  std::exception_ptr refusal;
  try {
    own = look();
  } catch (const Error& error) {
    refusal = std::current_exception();
    own = error.what();
    const std::string prefix = std::string(call) + ": ";
    if (own.rfind(prefix, 0) == 0) own.erase(0, prefix.size());
    own.insert(0, 1, kRefuses);
  }
  const std::vector<std::string> said = exchange(own, call);
  if (refusal) std::rethrow_exception(refusal);
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (!said[rank].empty() && said[rank].front() == kRefuses)
      throw Error(ErrorCode::mismatch, std::string(call) + ": rank " + std::to_string(rank) +
                                           "'s call makes no sense: " + said[rank].substr(1));
    if (said[rank].empty())
      throw Error(ErrorCode::mismatch,
                  std::string(call) + ": rank " + std::to_string(rank) +
                      " has joined (hvd::join); it takes all ranks of the job");
  }
  for (std::size_t rank = 1; rank < said.size(); ++rank)
    if (said[rank] != said[0])
      throw Error(ErrorCode::mismatch, std::string(call) + ": rank 0 called it for " + said[0] +
                                           ", but rank " + std::to_string(rank) + " for " +
                                           said[rank]);
}

int ProcessSets::add(std::vector<int> ranks, const std::string& name) {
  const MutexLock one_at_a_time(changing_);
  std::sort(ranks.begin(), ranks.end());
  auto set = std::make_shared<RankSet>();
  set->name = name;
  set->ranks = std::move(ranks);
  set->id = static_cast<int>(made_) + 1;
  constexpr const char* kCall = "add_process_set";
  agree(kCall, [&] {
    check_new(set->ranks, name);
    return set->text();
  });
  const std::uint32_t number = ++made_;
  if (set->includes(rank_)) set->place = set->place_of(rank_);
  std::string failure;
  const auto try_to = [&](const auto& step) {
    if (set->place < 0 || !failure.empty()) return;
    try {
      step();
    } catch (const std::exception& error) {
      failure = error.what();  // the others wait for an answer, whatever it is
      if (failure.empty()) failure = "it has failed";
    }
  };
  // On all ranks alike.
  const auto throw_first = [&](const std::vector<std::string>& failures) {
    for (std::size_t rank = 0; rank < failures.size(); ++rank)
      if (!failures[rank].empty())
        throw Error(ErrorCode::unavailable, "add_process_set: rank " + std::to_string(rank) +
                                                " cannot take part in " + set->text() + ": " +
                                                failures[rank]);
  };
  std::string address;
  try_to([&] { address = factory_.listen(*set, number); });
  const std::vector<std::string> all = exchange(address, kCall);
  // Else the others would wait for a rank that does not listen.
  throw_first(exchange(failure, kCall));
  try_to([&] {
    std::vector<std::string> addresses;
    for (const int rank : set->ranks) addresses.push_back(all[static_cast<std::size_t>(rank)]);
    set->engine = factory_.engine(*set, factory_.connect(*set, number, addresses));
  });
  const std::vector<std::string> failures = exchange(failure, kCall);
  if (set->place >= 0) factory_.connected(*set, number);
  throw_first(failures);
  // Those outside the set take part, too. One rank alone needs no communicator of NCCL's.
  if (set->ranks.size() > 1)
    if (auto made = world().split_gpu(set->ranks)) set->engine->adopt_gpu(std::move(made));
  const MutexLock lock(mutex_);
  sets_.emplace(set->id, set);
  for (const auto& [rank, reason] : gone_)
    if (set->engine && set->includes(rank))
      set->engine->communicator().peer_gone(set->place_of(rank), reason);
  if (aborted_ && set->engine) set->engine->communicator().abort(*aborted_);
  return set->id;
}

void ProcessSets::remove(int id) {
  const MutexLock one_at_a_time(changing_);
  std::shared_ptr<RankSet> set;
  agree("remove_process_set", [&] {
    if (id == 0) invalid("remove_process_set: the global process set cannot be removed");
    set = at(id);
    return set->text();
  });
  if (set->engine) set->engine->shutdown();
  const MutexLock lock(mutex_);
  sets_.erase(id);
}

std::vector<PendingReport> ProcessSets::pending() {
  std::vector<PendingReport> reports;
  const MutexLock lock(mutex_);
  for (const auto& [id, set] : sets_) {
    if (!set->engine) continue;
    reports.push_back(set->engine->pending_report());
    if (id == 0) continue;
    for (PendingReport::Item& item : reports.back().oldest) {
      item.name += " in " + set->text();
      item.ranks = set->ranks;
    }
  }
  return reports;
}

void ProcessSets::peer_gone(int rank, const Error& reason) {
  const MutexLock lock(mutex_);
  gone_.emplace(rank, reason);
  for (const auto& [id, set] : sets_)
    if (set->engine && set->includes(rank))
      set->engine->communicator().peer_gone(set->place_of(rank), reason);
}

void ProcessSets::give_up(int id, const Error& reason) {
  const MutexLock lock(mutex_);
  const auto found = sets_.find(id);
  if (found != sets_.end() && found->second->engine)
    found->second->engine->communicator().abort(reason);
}

void ProcessSets::abort(const Error& reason) {
  const MutexLock lock(mutex_);
  aborted_ = reason;
  for (const auto& [id, set] : sets_)
    if (set->engine) set->engine->communicator().abort(reason);
}

void ProcessSets::shutdown() noexcept {
  std::map<int, std::shared_ptr<RankSet>> sets;
  {
    const MutexLock lock(mutex_);
    sets = sets_;
  }
  for (const auto& [id, set] : sets)
    if (set->engine && id != 0) set->engine->shutdown();
  world().shutdown();
}

}  // namespace hvdrun
