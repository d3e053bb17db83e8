#include "coordinator/horovod/horovod_store.h"

#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

#include "coordinator/horovod/horovod_members.h"

namespace hvdrun {
namespace {

constexpr std::string_view kArrival = "rank_";  // and the member's number: its first key

std::string numbers(std::initializer_list<std::uint32_t> list) {
  std::string text;
  for (const std::uint32_t number : list)
    text.append(text.empty() ? "" : ",").append(std::to_string(number));
  return text;
}

// A member's number, below `size`.
std::optional<std::size_t> member_number(std::string_view text, std::size_t size) {
  std::size_t member = 0;
  const char* const end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data(), end, member);
  if (at != end || ec != std::errc() || member >= size) return std::nullopt;
  return member;
}

// The answer to a member that is not in the job any more.
constexpr const char* kRemoved = "-1,-1,-1,-1,-1,-1";

}  // namespace

std::optional<std::uint32_t> arriving_member(std::string_view key) {
  if (!key.starts_with(kArrival)) return std::nullopt;
  const auto member = member_number(key.substr(kArrival.size()), limits::kMaxRanks);
  if (!member) return std::nullopt;
  return static_cast<std::uint32_t>(*member);
}

std::vector<HorovodSlot> members_of(const RankTable& ranks) {
  std::vector<HorovodSlot> members;
  members.reserve(ranks.size());
  for (const RankPlace& place : ranks.places())
    members.push_back({ranks.host_name(place.rank), place});
  return members;
}

std::vector<HorovodStore::Late> HorovodStore::assign(const std::vector<HorovodSlot>& members,
                                                     const RanksByName* by_last_name) {
  scopes_.clear();
  places_.clear();
  bytes_ = 0;
  keys_ = 0;
  assigned_ = true;
  const auto size = static_cast<std::uint32_t>(members.size());
  if (size > 0) {
    Scope& global = scopes_[std::string(kHorovodGlobal)];
    global.finished.resize(size);
    global.present.resize(size);
  }
  ++gathering_version_;
  for (const HorovodSlot& member : members) {
    const auto& [host, place] = member;
    const std::string local_rank = std::to_string(place.local_rank);
    scopes_["local_" + host].finished.resize(place.local_size);
    scopes_["cross_" + local_rank].finished.resize(place.cross_size);
    places_[horovod_name(member)] = std::make_shared<const std::string>(
        numbers({place.rank, size, place.local_rank, place.local_size, place.cross_rank,
                 place.cross_size}));
  }
  std::vector<Late> late;
  for (const auto& [waiter, key] : std::exchange(waiting_, {})) {
    std::string name = key;
    if (by_last_name != nullptr) {
      const auto found = by_last_name->find(key);
      name = found != by_last_name->end() ? horovod_name(members[found->second]) : "";
    }
    late.push_back({waiter, rank_and_size(name)});
  }
  return late;
}

bool HorovodStore::has_come(std::uint32_t rank) const {
  const auto in = scopes_.find(kHorovodGlobal);
  return in != scopes_.end() && rank < in->second.present.size() && in->second.present[rank];
}

int HorovodStore::read(HttpRequest http, HorovodRequest& request) const {
  return read_horovod_request(std::move(http), limits_.key, request);
}

HorovodStore::Answer HorovodStore::answer(HorovodRequest request, Waiter waiter) {
  switch (request.verb) {
    case HorovodVerb::get: {
      Answer answer = get(request.scope, request.key);
      if (answer.status == 0) waiting_.emplace(waiter, std::move(request.key));
      return answer;
    }
    case HorovodVerb::put:
      return {put(request.scope, request.key, std::move(request.value)), nullptr};
    case HorovodVerb::finish:
      break;
  }
  finish(request.scope, request.key);
  return {200, nullptr};
}

const HorovodStore::Entry* HorovodStore::find(std::string_view scope,
                                              const std::string& key) const {
  const auto in = scopes_.find(scope);
  if (in == scopes_.end()) return nullptr;
  const auto found = in->second.values.find(key);
  return found == in->second.values.end() ? nullptr : &found->second;
}

const HorovodStore::Entry* HorovodStore::next_after(std::string_view scope, std::uint64_t stamp,
                                                    std::string& key) const {
  const auto in = scopes_.find(scope);
  if (in == scopes_.end()) return nullptr;
  const auto next = in->second.order.upper_bound(stamp);
  if (next == in->second.order.end()) return nullptr;
  key = *next->second;
  return &in->second.values.find(key)->second;
}

HorovodStore::Answer HorovodStore::get(std::string_view scope, const std::string& key) const {
  if (scope == kRankAndSize) {
    if (assigned_ && !waits_) return rank_and_size(key);
    return {waiting_.size() < limits_.waiters ? 0 : 503, nullptr};
  }
  const Entry* const entry = find(scope, key);
  return entry != nullptr ? Answer{200, entry->value} : Answer{404, nullptr};
}

HorovodStore::Answer HorovodStore::rank_and_size(const std::string& key) const {
  const auto found = places_.find(key);
  if (found != places_.end()) return {200, found->second};
  return {200, std::make_shared<const std::string>(kRemoved)};
}

int HorovodStore::put(std::string_view scope, const std::string& key, std::string value) {
  if (value.size() > limits_.value) return 413;
  const Entry* const old = find(scope, key);
  if (old == nullptr && keys_ >= limits_.keys) return 507;
  const std::size_t names = scope.size() + key.size();
  const std::size_t before = old == nullptr ? 0 : names + old->value->size();
  const std::size_t after = bytes_ - before + names + value.size();
  if (after > limits_.bytes) return 507;
  if (old == nullptr) ++keys_;
  bytes_ = after;
  auto in = scopes_.find(scope);
  if (in == scopes_.end()) in = scopes_.emplace(scope, Scope{}).first;
  const auto place = in->second.values.try_emplace(key).first;
  if (old != nullptr) in->second.order.erase(place->second.stamp);
  place->second = {std::make_shared<const std::string>(std::move(value)), ++last_stamp_};
  in->second.order.emplace(last_stamp_, &place->first);
  note_arrival(in->second, key);
  return 200;
}

void HorovodStore::note_arrival(Scope& scope, std::string_view key) {
  if (scope.present.empty() || !key.starts_with(kArrival)) return;
  const auto member = member_number(key.substr(kArrival.size()), scope.present.size());
  if (!member || scope.present[*member]) return;
  scope.present[*member] = true;
  ++gathering_version_;
}

HorovodStore::Gathering HorovodStore::gathering() const {
  Gathering who;
  const auto in = scopes_.find(kHorovodGlobal);
  if (in == scopes_.end()) return who;
  const std::vector<bool>& present = in->second.present;
  for (std::uint32_t member = 0; member < present.size(); ++member)
    (present[member] ? who.present : who.missing).push_back(member);
  if (who.present.empty() || who.missing.empty()) return {};
  return who;
}

// A member says that it has found all others. What it cannot mean is ignored: it is answered in
// any case, and asks again when it is not.
void HorovodStore::finish(std::string_view scope, const std::string& key) {
  const auto in = scopes_.find(scope);
  if (in == scopes_.end()) return;
  auto& [name, content] = *in;
  const auto forget = [&, &name = name](const std::string& k, const Entry& entry) {
    bytes_ -= name.size() + k.size() + entry.value->size();
    --keys_;
  };
  if (content.finished.empty()) {
    const auto found = content.values.find(key);
    if (found == content.values.end()) return;
    forget(found->first, found->second);
    content.order.erase(found->second.stamp);
    content.values.erase(found);
    if (content.values.empty()) scopes_.erase(in);
    return;
  }
  const auto member = member_number(key, content.finished.size());
  if (!member) return;
  if (content.finished[*member]) return;  // asked twice: the first answer was lost
  content.finished[*member] = true;
  if (++content.finished_count < content.finished.size()) return;
  for (const auto& [k, entry] : content.values) forget(k, entry);
  content.order.clear();
  content.values.clear();
  ++rounds_;
  if (name == kHorovodGlobal) ++meetings_;
  content.finished.assign(content.finished.size(), false);
  content.finished_count = 0;
  content.present.assign(content.present.size(), false);
  ++gathering_version_;
}

}  // namespace hvdrun
