// Ranks that mean different things tell each other what they have, and run what all of them have.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "worker/hvd/engine/engine.h"
#include "worker/hvd/engine/failure.h"
#include "worker/hvd/engine/stand_in.h"

namespace hvdrun {
namespace {

// The ranks compare these in place of an operation's fingerprint.
constexpr std::uint64_t kOffers = 1;
constexpr std::uint64_t kDetails = 2;
// The others may compute for as long as they like while this rank has joined.
constexpr std::chrono::hours kEver{24 * 365};
// So many mismatches are told at once; the others are in the next negotiation again.
constexpr std::size_t kMostMismatches = 64;
constexpr std::size_t kMostText = 4096;  // of one operation

}  // namespace

void Engine::negotiate() {
  peers_.offers = exchange_offers();
  const Agreement agreement = agree(peers_.offers, options_.fusion_bytes);
  note_joined();
  {
    const MutexLock lock(mutex_);
    scheduler_.agreed(peers_.offers, agreement);
    ++statistics_.negotiations;
    if (agreement.all_joined) {
      scheduler_.all_joined();
      std::fill(peers_.joined.begin(), peers_.joined.end(), false);
      done_.notify_all();
      return;
    }
  }
  if (!agreement.mismatches.empty()) settle_mismatches(agreement.mismatches);
  if (std::find(peers_.joined.begin(), peers_.joined.end(), true) != peers_.joined.end())
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
std::vector<std::string> Engine::exchange(const std::string& own, std::uint64_t fingerprint) {
  const auto ranks = static_cast<std::size_t>(communicator_->size());
  CallOptions options = call(fingerprint, false);
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

void Engine::note_joined() {
  const MutexLock lock(mutex_);
  for (std::size_t rank = 0; rank < peers_.offers.size(); ++rank) {
    if (peers_.offers[rank].joined && !peers_.joined[rank]) joined_.last = static_cast<int>(rank);
    peers_.joined[rank] = peers_.offers[rank].joined;
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
    for (const Proposal& proposal : peers_.offers[rank].proposals)
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
    failures.push_back(named_error(
        entry->operation,
        {hvd::ErrorCode::mismatch, rank_text(first) + " called " + words_of(first, i) + ", but " +
                                       rank_text(other) + " called " + words_of(other, i)}));
    finish(entry, failure_of(failures.back()));
  }
  if (options_.on_failed)
    for (const hvd::Error& failure : failures) options_.on_failed(failure);
}

// The difference in one that all ranks have called alike, but for what only shows as it runs.
hvd::Error Engine::difference_in(const Operation& operation) {
  const std::vector<std::string> texts = exchange(describe(operation), kDetails);
  std::size_t other = 1;
  while (other + 1 < texts.size() && texts[other] == texts[0]) ++other;
  return named_error(operation,
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
    run(batch, false, Agreed::yes);
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
        if (!peers_.joined[rank]) view[rank] = &views[rank].at(index);
      ++index;
      std::shared_ptr<Entry> entry;
      {
        const MutexLock lock(mutex_);
        entry = scheduler_.find(name);
      }
      const std::string obstacle = stand_in_obstacle(*view[agreement.leader], peers_.joined);
      if (!obstacle.empty()) {
        if (entry) fail(entry, {hvd::ErrorCode::invalid_argument, obstacle});
        continue;
      }
      if (peers_.joined[own]) {
        memory.push_back(make_stand_in(view, own));
        StandIn& made = *memory.back();
        if (made.operation.device && gpu_)
          made.on_gpu = gpu_->lend(made.operation, made.input, made.output.size());
        entry = std::make_shared<Entry>(memory.back()->operation);
        entry->name = name;
        for (const Proposal& proposal : peers_.offers[agreement.leader].proposals)
          if (proposal.name == name) entry->meta = proposal.meta;
      }
      batch.push_back(entry);
    }
    if (!batch.empty()) run(batch, false, Agreed::yes);
  }
}

}  // namespace hvdrun
