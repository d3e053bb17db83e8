#include "worker/agent/horovod/horovod_mirror.h"

#include <memory>

namespace hvdrun {

HorovodAnswer HorovodMirror::answer(HttpRequest http, Waiter waiter) {
  HorovodRequest request;
  if (const int fault = read_horovod_request(std::move(http), limits_.key, request); fault != 0)
    return {fault, nullptr};
  if (request.verb == HorovodVerb::get && request.scope != kRankAndSize)
    return look_up(std::move(request), waiter);
  return ask(std::move(request), waiter);
}

HorovodAnswer HorovodMirror::look_up(HorovodRequest request, Waiter waiter) {
  Scope* const scope = follow(request.scope);
  if (scope == nullptr) return {503, nullptr};
  scope->last_use = ++uses_;
  const auto found = scope->values.find(request.key);
  if (found != scope->values.end()) return {200, found->second};
  if (scope->caught_up)
    return {held_gets_.hold(waiter, scope->name, request.key) ? 0 : 404, nullptr};
  if (gets_waiting_ >= limits_.asked) return {503, nullptr};
  ++gets_waiting_;
  scope->waiting.emplace_back(waiter, std::move(request.key));
  return {};
}

HorovodAnswer HorovodMirror::overdue(Waiter waiter) {
  return {held_gets_.forget(waiter) ? 404 : 0, nullptr};
}

void HorovodMirror::set(Scope& scope, std::string key, HorovodBytes value) {
  for (const Waiter waiter : held_gets_.take(scope.name, key))
    late_.push_back({waiter, {200, value}});
  scope.values[std::move(key)] = std::move(value);
}

// nullptr: there are too many, and all are about to be had.
HorovodMirror::Scope* HorovodMirror::follow(const std::string& scope) {
  const auto known = numbers_.find(scope);
  if (known != numbers_.end()) return &scopes_.find(known->second)->second;
  if (scopes_.size() >= limits_.follows && !unfollow_oldest()) return nullptr;
  const std::uint64_t number = next_follow_++;
  numbers_[scope] = number;
  send(HorovodFollow{number, scope});
  Scope& made = scopes_[number];
  made.name = scope;
  return &made;
}

bool HorovodMirror::unfollow_oldest() {
  auto oldest = scopes_.end();
  for (auto it = scopes_.begin(); it != scopes_.end(); ++it)
    if (it->second.caught_up &&
        (oldest == scopes_.end() || it->second.last_use < oldest->second.last_use))
      oldest = it;
  if (oldest == scopes_.end()) return false;
  send(HorovodUnfollow{oldest->first});
  numbers_.erase(oldest->second.name);
  scopes_.erase(oldest);
  return true;
}

HorovodAnswer HorovodMirror::ask(HorovodRequest request, Waiter waiter) {
  if (queue_.size() + asked_.size() >= limits_.asked || held_ + request.value.size() > limits_.held)
    return {503, nullptr};
  held_ += request.value.size();
  queue_.emplace_back(std::move(request), waiter);
  send_some();
  return {};
}

void HorovodMirror::send_some() {
  while (!queue_.empty() && under_way_ < limits_.window) {
    auto [request, waiter] = std::move(queue_.front());
    queue_.pop_front();
    Asked asked{waiter, request.verb, request.key, nullptr,
                horovod_cost(request.key, request.value.size())};
    HorovodAsk message{next_request_, request.verb, std::move(request.scope),
                       std::move(request.key), std::move(request.value)};
    send(message);
    if (message.verb == HorovodVerb::put)
      asked.value = std::make_shared<const std::string>(std::move(message.value));
    under_way_ += asked.cost;
    asked_.emplace(next_request_++, std::move(asked));
  }
}

bool HorovodMirror::takes(MessageType type) {
  return type == MessageType::horovod_reply || type == MessageType::horovod_copy ||
         type == MessageType::horovod_drop || type == MessageType::horovod_caught_up;
}

Errc HorovodMirror::coordinator_frame(const Frame& frame) {
  HorovodReply reply;
  HorovodCopy copy;
  HorovodDrop dropped;
  HorovodCaughtUp caught_up;
  switch (frame.type) {
    case MessageType::horovod_reply:
      return decode(frame.payload, reply) ? Errc::malformed : on_reply(std::move(reply));
    case MessageType::horovod_copy:
      if (decode(frame.payload, copy)) return Errc::malformed;
      on_copy(std::move(copy));
      return Errc::ok;
    case MessageType::horovod_drop: {
      if (decode(frame.payload, dropped)) return Errc::malformed;
      // One that we follow no more may be spoken of for a while.
      const auto scope = scopes_.find(dropped.follow);
      if (scope == scopes_.end()) return Errc::ok;
      if (dropped.key.empty()) scope->second.values.clear();
      scope->second.values.erase(dropped.key);
      return Errc::ok;
    }
    case MessageType::horovod_caught_up:
      if (decode(frame.payload, caught_up)) return Errc::malformed;
      on_caught_up(caught_up.follow);
      return Errc::ok;
    default:
      return Errc::unexpected_message;
  }
}

void HorovodMirror::on_copy(HorovodCopy message) {
  owed_ += horovod_cost(message.key, message.value.size());
  if (owed_ >= limits_.window / 4) send(HorovodTaken{std::exchange(owed_, 0)});
  const auto scope = scopes_.find(message.follow);
  if (scope == scopes_.end()) return;
  set(scope->second, std::move(message.key),
      std::make_shared<const std::string>(std::move(message.value)));
}

void HorovodMirror::on_caught_up(std::uint64_t number) {
  const auto found = scopes_.find(number);
  if (found == scopes_.end()) return;
  Scope& scope = found->second;
  scope.caught_up = true;
  gets_waiting_ -= scope.waiting.size();
  for (const auto& [waiter, key] : std::exchange(scope.waiting, {})) {
    const auto value = scope.values.find(key);
    if (value != scope.values.end())
      late_.push_back({waiter, {200, value->second}});
    else if (!held_gets_.hold(waiter, scope.name, key))
      late_.push_back({waiter, {404, nullptr}});
  }
}

Errc HorovodMirror::on_reply(HorovodReply message) {
  constexpr std::uint16_t kFirst = 200;
  constexpr std::uint16_t kLast = 599;
  auto answered = asked_.extract(message.request);
  if (answered.empty() || message.status < kFirst || message.status > kLast) return Errc::malformed;
  Asked& asked = answered.mapped();
  under_way_ -= asked.cost;
  if (asked.value) held_ -= asked.value->size();
  HorovodAnswer answer{message.status, nullptr};
  if (message.status == 200 && asked.verb == HorovodVerb::get)
    answer.value = std::make_shared<const std::string>(std::move(message.value));
  const auto scope = scopes_.find(message.follow);
  if (message.status == 200 && asked.value && scope != scopes_.end())
    set(scope->second, std::move(asked.key), std::move(asked.value));
  late_.push_back({asked.waiter, std::move(answer)});
  send_some();
  return Errc::ok;
}

}  // namespace hvdrun
