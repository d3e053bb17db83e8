#include "coordinator/horovod/horovod_hub.h"

#include "common/horovod/worker_addresses.h"

namespace hvdrun {
namespace {

// A value below it is not worth a write of its own.
constexpr std::size_t kSharedFrom = 4U << 10;

}  // namespace

void HorovodHub::forget_early(std::uint32_t host, std::uint32_t rank) {
  std::erase_if(early_, [&](const auto& early) {
    return early.first == host && arriving_member(early.second.key) == rank;
  });
}

void HorovodHub::assign(const std::vector<HorovodSlot>& members, std::uint32_t epoch,
                        const HorovodStore::RanksByName* by_last_name) {
  epoch_ = epoch;
  for (const auto& [scope, hosts] : followers_) drop_all(scope);
  for (HorovodStore::Late& late : store_.assign(members, by_last_name)) {
    const auto waiting = waiting_.extract(late.waiter);
    if (waiting.empty()) continue;
    const auto [host, request] = waiting.mapped();
    send(host, HorovodReply{request, static_cast<std::uint16_t>(late.answer.status), 0,
                            *late.answer.value});
  }
  for (auto& [host, message] : std::exchange(early_, {})) on_ask(host, std::move(message));
}

bool HorovodHub::takes(MessageType type) {
  return type == MessageType::horovod_ask || type == MessageType::horovod_follow ||
         type == MessageType::horovod_unfollow || type == MessageType::horovod_taken;
}

Errc HorovodHub::agent_frame(std::uint32_t host, const Frame& frame) {
  // Its number means nothing here: what was asked before the last assignment is to be answered.
  if (frame.epoch > epoch_) return Errc::wrong_epoch;
  HorovodAsk ask;
  HorovodFollow follow;
  HorovodUnfollow unfollowed;
  HorovodTaken taken;
  switch (frame.type) {
    case MessageType::horovod_ask:
      return decode(frame.payload, ask) ? Errc::malformed : on_ask(host, std::move(ask));
    case MessageType::horovod_follow:
      return decode(frame.payload, follow) ? Errc::malformed : on_follow(host, std::move(follow));
    case MessageType::horovod_unfollow:
      if (decode(frame.payload, unfollowed)) return Errc::malformed;
      unfollow(host, unfollowed.follow);
      return Errc::ok;
    case MessageType::horovod_taken:
      if (decode(frame.payload, taken) || taken.bytes > hosts_[host].under_way)
        return Errc::malformed;
      hosts_[host].under_way -= taken.bytes;
      send_some(host);
      return Errc::ok;
    default:
      return Errc::unexpected_message;
  }
}

void HorovodHub::agent_lost(std::uint32_t host) {
  while (!hosts_[host].follows.empty()) unfollow(host, hosts_[host].follows.begin()->first);
  hosts_[host] = {};
  std::erase_if(early_, [host](const auto& early) { return early.first == host; });
  std::erase_if(waiting_, [&](const auto& waiting) {
    if (waiting.second.first != host) return false;
    store_.forget(waiting.first);
    return true;
  });
}

Errc HorovodHub::on_follow(std::uint32_t host, HorovodFollow message) {
  Host& agent = hosts_[host];
  if (message.follow == 0 || message.scope.size() > longest_ || message.scope == kRankAndSize ||
      agent.follows.contains(message.follow) || agent.by_scope.contains(message.scope))
    return Errc::malformed;
  if (agent.follows.size() >= limits::kMaxHorovodFollows) return Errc::limit_exceeded;
  followers_[message.scope].insert(host);
  agent.by_scope[message.scope] = message.follow;
  agent.follows[message.follow].scope = std::move(message.scope);
  agent.behind.insert(message.follow);
  send_some(host);
  return Errc::ok;
}

void HorovodHub::unfollow(std::uint32_t host, std::uint64_t follow) {
  Host& agent = hosts_[host];
  const auto gone = agent.follows.extract(follow);
  if (gone.empty()) return;
  const std::string& scope = gone.mapped().scope;
  agent.by_scope.erase(scope);
  agent.behind.erase(follow);
  const auto followers = followers_.find(scope);
  followers->second.erase(host);
  if (followers->second.empty()) followers_.erase(followers);
}

Errc HorovodHub::on_ask(std::uint32_t host, HorovodAsk message) {
  if (!are_scope_and_key(message.scope, message.key, longest_)) return Errc::malformed;
  if (hold_early(host, message)) return Errc::ok;
  note(host, message);
  HorovodReply answer{message.request, 200, 0, {}};
  int status = 200;
  if (message.verb == HorovodVerb::put) {
    answer.follow = put(host, message, status);
  } else if (message.verb == HorovodVerb::finish) {
    finish(message);
  } else if (message.verb == HorovodVerb::get) {
    const HorovodStore::Waiter waiter = next_waiter_++;
    HorovodStore::Answer found = store_.answer(
        HorovodRequest{HorovodVerb::get, std::move(message.scope), std::move(message.key), {}},
        waiter);
    if (found.status == 0) {
      waiting_[waiter] = {host, message.request};
      return Errc::ok;
    }
    status = found.status;
    if (found.value) answer.value = *found.value;
  } else {
    return Errc::malformed;
  }
  answer.status = static_cast<std::uint16_t>(status);
  send(host, answer);
  return Errc::ok;
}

void HorovodHub::note(std::uint32_t host, const HorovodAsk& message) {
  using What = Said::What;
  if (message.verb == HorovodVerb::put && message.scope == kWorkerAddresses)
    said_.push_back({What::enters, host, message.key, message.value});
  if (message.verb == HorovodVerb::get && message.scope == kRankAndSize)
    said_.push_back({What::at_door, host, message.key});
}

bool HorovodHub::hold_early(std::uint32_t host, HorovodAsk& message) {
  if (!comes_early_ || message.verb != HorovodVerb::put || message.scope != kHorovodGlobal)
    return false;
  const auto rank = arriving_member(message.key);
  if (!rank || !comes_early_(host, *rank)) return false;
  // Its process has been started again: nobody waits for the answer to the last one.
  std::erase_if(early_, [&](const auto& early) {
    return early.first == host && early.second.key == message.key;
  });
  early_.emplace_back(host, std::move(message));
  return true;
}

// The number under which the host has the value by its answer; 0: none.
std::uint64_t HorovodHub::put(std::uint32_t host, HorovodAsk& message, int& status) {
  const HorovodStore::Entry* const old = store_.find(message.scope, message.key);
  const std::uint64_t old_stamp = old != nullptr ? old->stamp : 0;
  Host& agent = hosts_[host];
  const auto followed = agent.by_scope.find(message.scope);
  const std::uint64_t follow = followed != agent.by_scope.end() ? followed->second : 0;
  // A value that a process set leaves behind comes again in its next round, and is what all have.
  const bool is_new = old == nullptr || *old->value != message.value;
  if (is_new) {
    status = store_
                 .answer(HorovodRequest{HorovodVerb::put, message.scope, message.key,
                                        std::move(message.value)},
                         0)
                 .status;
    if (status != 200) return 0;
    if (old_stamp != 0) drop(message.scope, message.key, old_stamp, &agent);
  }
  if (follow != 0)
    agent.follows[follow].own[message.key] = store_.find(message.scope, message.key)->stamp;
  if (!is_new) return follow;
  for_each_follower(message.scope, [&](std::uint32_t other, std::uint64_t number, Follow&) {
    hosts_[other].behind.insert(number);
    send_some(other);
  });
  return follow;
}

void HorovodHub::finish(const HorovodAsk& message) {
  const HorovodStore::Entry* const old = store_.find(message.scope, message.key);
  const std::uint64_t stamp = old != nullptr ? old->stamp : 0;
  const std::uint64_t rounds = store_.rounds();
  store_.answer(HorovodRequest{HorovodVerb::finish, message.scope, message.key, {}}, 0);
  if (store_.rounds() != rounds) return drop_all(message.scope);
  if (stamp != 0 && store_.find(message.scope, message.key) == nullptr)
    drop(message.scope, message.key, stamp);
}

template <class Each>
void HorovodHub::for_each_follower(std::string_view scope, Each&& each) {
  const auto followers = followers_.find(scope);
  if (followers == followers_.end()) return;
  for (const std::uint32_t host : followers->second) {
    const std::uint64_t number = hosts_[host].by_scope.find(scope)->second;
    each(host, number, hosts_[host].follows[number]);
  }
}

void HorovodHub::drop(const std::string& scope, const std::string& key, std::uint64_t stamp,
                      const Host* but) {
  for_each_follower(scope, [&](std::uint32_t host, std::uint64_t number, Follow& follow) {
    const bool was_own = follow.own.erase(key) > 0;
    if (&hosts_[host] != but && (was_own || follow.sent >= stamp))
      send(host, HorovodDrop{number, key});
  });
}

void HorovodHub::drop_all(const std::string& scope) {
  for_each_follower(scope, [&](std::uint32_t host, std::uint64_t number, Follow& follow) {
    follow.own.clear();
    send(host, HorovodDrop{number, {}});
  });
}

// A value that is replaced while it waits goes once, as it is then; a dropped one does not go.
void HorovodHub::send_some(std::uint32_t host) {
  Host& agent = hosts_[host];
  while (!agent.behind.empty()) {
    // In turn: one scope whose values are replaced without end must not keep the others.
    auto turn = agent.behind.upper_bound(agent.served);
    if (turn == agent.behind.end()) turn = agent.behind.begin();
    const std::uint64_t number = *turn;
    Follow& follow = agent.follows[number];
    std::string key;
    const HorovodStore::Entry* const next = store_.next_after(follow.scope, follow.sent, key);
    if (next == nullptr) {
      agent.behind.erase(turn);
      if (!std::exchange(follow.caught_up, true)) send(host, HorovodCaughtUp{number});
      continue;
    }
    const auto own = follow.own.find(key);
    if (own != follow.own.end() && own->second == next->stamp) {
      follow.sent = next->stamp;
      continue;
    }
    if (agent.under_way >= window_) return;
    agent.served = number;
    follow.sent = next->stamp;
    send_copy(host, number, key, next->value);
    agent.under_way += horovod_cost(key, next->value->size());
  }
}

void HorovodHub::send_copy(std::uint32_t host, std::uint64_t follow, const std::string& key,
                           const HorovodBytes& value) {
  if (value->size() < kSharedFrom) return send(host, HorovodCopy{follow, key, *value});
  const std::string head =
      encode(HorovodCopyHead{follow, key, static_cast<std::uint32_t>(value->size())});
  std::string frame;
  append_header(frame, HorovodCopy::kType, epoch_, head.size() + value->size());
  actions_.push_back({host, frame + head, value});
}

}  // namespace hvdrun
