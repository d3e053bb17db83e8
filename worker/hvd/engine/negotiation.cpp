#include "worker/hvd/engine/negotiation.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace hvdrun {
namespace {

// Joined, and how many proposals follow.
struct Head {
  std::uint64_t joined = 0;
  std::uint64_t count = 0;
};

using ByName = std::unordered_map<std::uint64_t, const Proposal*>;

ByName by_name(const Offer& offer) {
  ByName found;
  found.reserve(offer.proposals.size());
  for (const Proposal& proposal : offer.proposals) found.emplace(proposal.name, &proposal);
  return found;
}

// Cuts what may run together into batches; a batch stands where its first operation does.
class Batches {
 public:
  explicit Batches(std::uint64_t most) : most_(most) {}

  void add(const Proposal& proposal) {
    if (proposal.kind == 0) {
      all_.push_back({proposal.name});
      return;
    }
    const auto [found, is_new] = open_.try_emplace(proposal.kind);
    Open& open = found->second;
    if (is_new || open.bytes + proposal.bytes > most_) {
      open = {all_.size(), 0};
      all_.emplace_back();
    }
    open.bytes += proposal.bytes;
    all_[open.index].push_back(proposal.name);
  }
  std::vector<std::vector<std::uint64_t>> take() { return std::move(all_); }

 private:
  struct Open {
    std::size_t index = 0;
    std::uint64_t bytes = 0;
  };
  const std::uint64_t most_;
  std::vector<std::vector<std::uint64_t>> all_;
  std::unordered_map<std::uint64_t, Open> open_;
};

}  // namespace

std::string encode(const Offer& offer) {
  const Head head{offer.joined ? 1U : 0U, offer.proposals.size()};
  const std::size_t bytes = offer.proposals.size() * sizeof(Proposal);
  std::string text(sizeof head + bytes, '\0');
  std::memcpy(text.data(), &head, sizeof head);
  if (bytes > 0) std::memcpy(text.data() + sizeof head, offer.proposals.data(), bytes);
  return text;
}

Offer decode(std::string_view bytes) {
  Head head;
  const auto wrong = [] {
    return hvd::Error(hvd::ErrorCode::internal, "a rank's list of operations is damaged");
  };
  if (bytes.size() < sizeof head) throw wrong();
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (bytes.size() % sizeof(Proposal) != 0 || bytes.size() / sizeof(Proposal) != head.count)
    throw wrong();
  Offer offer;
  offer.joined = head.joined != 0;
  offer.proposals.resize(head.count);
  if (!bytes.empty()) std::memcpy(offer.proposals.data(), bytes.data(), bytes.size());
  return offer;
}

Agreement agree(const std::vector<Offer>& offers, std::uint64_t fusion_bytes) {
  Agreement agreement;
  const auto leader =
      std::find_if(offers.begin(), offers.end(), [](const Offer& offer) { return !offer.joined; });
  agreement.all_joined = leader == offers.end();
  if (agreement.all_joined) return agreement;
  agreement.leader = static_cast<std::size_t>(leader - offers.begin());
  std::vector<ByName> others;
  std::vector<bool> joined;
  for (auto offer = offers.begin(); offer != offers.end(); ++offer) {
    if (offer == leader) continue;
    others.push_back(by_name(*offer));
    joined.push_back(offer->joined);
  }
  Batches batches(fusion_bytes);
  for (const Proposal& proposal : leader->proposals) {
    bool everywhere = true;
    bool same = true;
    for (std::size_t i = 0; i < others.size() && everywhere; ++i) {
      const auto found = others[i].find(proposal.name);
      if (found == others[i].end())
        everywhere = joined[i];
      else
        same = same && found->second->meta == proposal.meta;
    }
    if (!everywhere) continue;
    if (same)
      batches.add(proposal);
    else
      agreement.mismatches.push_back(proposal.name);
  }
  agreement.batches = batches.take();
  return agreement;
}

std::vector<std::size_t> ranks_without(const std::vector<Offer>& offers, std::uint64_t name) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const auto& proposals = offers[rank].proposals;
    if (offers[rank].joined) continue;
    if (std::none_of(proposals.begin(), proposals.end(),
                     [&](const Proposal& proposal) { return proposal.name == name; }))
      ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace hvdrun
