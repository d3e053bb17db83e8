// What ranks do that mean different things: they tell each other what they have, and run what all
// of them have.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "worker/hvd/engine/engine.h"
#include "worker/hvd/engine/stand_in.h"

namespace hvdrun {
namespace {

// What ranks compare in place of an operation's fingerprint.
constexpr std::uint64_t kOffers = 1;
constexpr std::uint64_t kDetails = 2;
// The others may compute for as long as they like while this rank has joined.
constexpr std::chrono::hours kEver{24 * 365};
// How many mismatches are told at once; the others are in the next negotiation again.
constexpr std::size_t kMostMismatches = 64;
constexpr std::size_t kMostText = 4096;  // of one operation

}  // namespace

void Engine::negotiate() {
  offers_ = exchange_offers();
  const Agreement agreement = agree(offers_, options_.fusion_bytes);
  note_joined(offers_);
  {
    const MutexLock lock(mutex_);
    scheduler_.agreed(offers_, agreement);
    ++statistics_.negotiations;
    if (agreement.all_joined) {
      scheduler_.all_joined();
      std::fill(joined_.begin(), joined_.end(), false);
      done_.notify_all();
      return;
    }
  }
  if (!agreement.mismatches.empty()) settle_mismatches(agreement.mismatches);
  if (std::find(joined_.begin(), joined_.end(), true) != joined_.end())
    run_with_joined(agreement);
  else
    run_agreed(agreement);
}

std::vector<Offer> Engine::exchange_offers() {
  const auto own_offer = [this] {
    const MutexLock lock(mutex_);
    return encode(scheduler_.offer());
  };
  std::vector<std::string> texts;
  try {
    texts = exchange(own_offer(), kOffers);
  } catch (const Differs&) {
    // Some meant an operation; now all know better.
    texts = exchange(own_offer(), kOffers);
  }
  std::vector<Offer> offers;
  offers.reserve(texts.size());
  for (const std::string& text : texts) offers.push_back(decode(text));
  return offers;
}

// Everybody's bytes, by rank.
std::vector<std::string> Engine::exchange(const std::string& own, std::uint64_t name) {
  const auto ranks = static_cast<std::size_t>(communicator_->size());
  CallOptions options = call(name, false);
  {
    const MutexLock lock(mutex_);
    if (scheduler_.joined()) options.timeout = kEver;
  }
  const std::uint64_t size = own.size();
  std::vector<std::uint64_t> sizes(ranks);
  const std::vector<std::size_t> ones(ranks, 1);
  communicator_->allgather(&size, sizes.data(), ones.data(), hvd::DataType::int64, options);
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::string all(sum_of(counts.data(), ranks), '\0');
  communicator_->allgather(own.data(), all.data(), counts.data(), hvd::DataType::uint8, options);
  std::vector<std::string> texts;
  texts.reserve(ranks);
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(begin, count));
    begin += count;
  }
  return texts;
}

void Engine::note_joined(const std::vector<Offer>& offers) {
  const MutexLock lock(mutex_);
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].joined && !joined_[rank]) last_joined_ = static_cast<int>(rank);
    joined_[rank] = offers[rank].joined;
  }
}

// Every rank has called these, but not in the same way: an error for all, and nothing else is.
void Engine::settle_mismatches(const std::vector<std::uint64_t>& names) {
  const std::size_t told = std::min(names.size(), kMostMismatches);
  std::string own;
  {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < told; ++i) {
      const std::shared_ptr<Entry> entry = scheduler_.find(names[i]);
      std::string words = entry ? describe(entry->operation) : "";
      std::replace(words.begin(), words.end(), '\n', ' ');
      own += words.substr(0, kMostText) + '\n';
    }
  }
  const std::vector<std::string> texts = exchange(own, kDetails);
  const auto words_of = [&](std::size_t rank, std::size_t index) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < index; ++i) begin = texts[rank].find('\n', begin) + 1;
    return texts[rank].substr(begin, texts[rank].find('\n', begin) - begin);
  };
  const auto meta_of = [&](std::size_t rank, std::uint64_t name) -> const std::uint64_t* {
    for (const Proposal& proposal : offers_[rank].proposals)
      if (proposal.name == name) return &proposal.meta;
    return nullptr;
  };
  std::vector<hvd::Error> failures;
  for (std::size_t i = 0; i < told; ++i) {
    std::size_t first = 0;
    while (meta_of(first, names[i]) == nullptr) ++first;
    std::size_t other = first + 1;
    const auto differs = [&](std::size_t rank) {
      const std::uint64_t* const meta = meta_of(rank, names[i]);
      return meta != nullptr && *meta != *meta_of(first, names[i]);
    };
    while (!differs(other)) ++other;
    const MutexLock lock(mutex_);
    const std::shared_ptr<Entry> entry = scheduler_.find(names[i]);
    if (!entry) continue;
    failures.push_back(name_error(
        entry->operation,
        {hvd::ErrorCode::mismatch, rank_text(first) + " called " + words_of(first, i) + ", but " +
                                       rank_text(other) + " called " + words_of(other, i)}));
    finish(entry, failure_of(failures.back()));
  }
  if (options_.on_failed)
    for (const hvd::Error& failure : failures) options_.on_failed(failure);
}

// Of one that all ranks have called alike, but for what only shows as it runs.
hvd::Error Engine::difference_in(const Operation& operation) {
  const std::vector<std::string> texts = exchange(describe(operation), kDetails);
  std::size_t other = 1;
  while (other + 1 < texts.size() && texts[other] == texts[0]) ++other;
  return name_error(operation,
                    {hvd::ErrorCode::mismatch, rank_text(0) + " called " + texts[0] + ", but " +
                                                   rank_text(other) + " called " + texts[other]});
}

void Engine::run_agreed(const Agreement& agreement) {
  for (const auto& names : agreement.batches) {
    Entries batch;
    {
      const MutexLock lock(mutex_);
      for (const std::uint64_t name : names) batch.push_back(scheduler_.find(name));
    }
    run_batch(batch, false, Agreed::yes);
  }
}

// Ranks that have joined learn from the others what it is that they take part in.
void Engine::run_with_joined(const Agreement& agreement) {
  if (agreement.batches.empty()) return;
  const auto own = static_cast<std::size_t>(communicator_->rank());
  std::vector<const Operation*> operations;
  {
    const MutexLock lock(mutex_);
    for (const auto& names : agreement.batches)
      for (const std::uint64_t name : names)
        if (const auto entry = scheduler_.find(name)) operations.push_back(&entry->operation);
  }
  const std::vector<std::string> texts = exchange(encode_operations(operations), kDetails);
  std::vector<std::vector<Operation>> views;
  views.reserve(texts.size());
  for (const std::string& text : texts) views.push_back(decode_operations(text));
  std::size_t index = 0;
  for (const auto& names : agreement.batches) {
    Entries batch;
    std::vector<std::unique_ptr<StandIn>> memory;
    for (const std::uint64_t name : names) {
      std::vector<const Operation*> view(views.size());
      for (std::size_t rank = 0; rank < views.size(); ++rank)
        if (!joined_[rank]) view[rank] = &views[rank].at(index);
      ++index;
      std::shared_ptr<Entry> entry;
      {
        const MutexLock lock(mutex_);
        entry = scheduler_.find(name);
      }
      const std::string obstacle = stand_in_obstacle(*view[agreement.leader], joined_);
      if (!obstacle.empty()) {
        if (entry) fail(entry, {hvd::ErrorCode::invalid_argument, obstacle});
        continue;
      }
      if (joined_[own]) {
        memory.push_back(make_stand_in(view, own));
        StandIn& made = *memory.back();
        if (made.operation.device && gpu_)
          made.on_gpu = gpu_->lend(made.operation, made.input, made.output.size());
        entry = std::make_shared<Entry>(memory.back()->operation);
        entry->name = name;
        for (const Proposal& proposal : offers_[agreement.leader].proposals)
          if (proposal.name == name) entry->meta = proposal.meta;
      }
      batch.push_back(entry);
    }
    if (!batch.empty()) run_batch(batch, false, Agreed::yes);
  }
}

void Engine::fail(const std::shared_ptr<Entry>& entry, const hvd::Error& error) {
  const hvd::Error named =
      name_error(entry->operation,
                 {error.code(), describe(entry->operation) + ": " + std::string(error.what())});
  {
    const MutexLock lock(mutex_);
    finish(entry, failure_of(named));
  }
  if (options_.on_failed) options_.on_failed(named);
}

// This rank has operations that others lack; they, or it, must submit something.
void Engine::await() {
  auto until = Clock::now() + kAwhile;
  Clock::time_point slow_at = Clock::time_point::max();
  std::optional<Clock::time_point> deadline;
  {
    const MutexLock lock(mutex_);
    if (!scheduler_.pending().empty()) {
      const Clock::time_point oldest = scheduler_.pending().front()->submitted;
      deadline = oldest + options_.timeout;
      if (options_.stall_after.count() > 0) slow_at = next_stall(oldest);
    }
  }
  if (deadline) until = std::min({until, *deadline, slow_at});
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const bool others = communicator_->await_others(std::max(limit, std::chrono::milliseconds(0)));
  if (deadline && !others && Clock::now() >= *deadline) give_up_waiting();
  if (!others && Clock::now() >= slow_at) {
    ++stalls_told_;
    tell_stalled();
  }
  const MutexLock lock(mutex_);
  awaiting_ = false;
  if (others) scheduler_.must_negotiate();
}

// When to tell that the oldest operation waits: after each further `stall_after`.
Engine::Clock::time_point Engine::next_stall(Clock::time_point oldest) {
  if (oldest != stalled_) {
    stalled_ = oldest;
    stalls_told_ = 0;
  }
  return oldest + (stalls_told_ + 1) * options_.stall_after;
}

// The oldest operation has waited for too long: the end of this communicator, on all ranks.
void Engine::give_up_waiting() {
  std::string missing;
  {
    const MutexLock lock(mutex_);
    constexpr std::size_t kMostNamed = 8;
    const auto ranks = ranks_without(offers_, scheduler_.pending().front()->name);
    for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
      missing += (i == 0 ? "" : ", ") + rank_text(ranks[i]);
    if (ranks.size() > kMostNamed)
      missing += " and " + std::to_string(ranks.size() - kMostNamed) + " more";
  }
  communicator_->abort(
      {hvd::ErrorCode::timeout,
       "waited " + seconds_text(options_.timeout) + " for " + missing + ", which did not call it"});
  communicator_->await_others(std::chrono::milliseconds(0));  // tells the others, and throws
}

}  // namespace hvdrun
