#include "coordinator/store.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"

namespace hvdrun {

Errc Store::put(const std::string& key, std::string value, std::vector<Answer>& answers) {
  if (key.empty() || key.size() > limits::kMaxStoreKey || value.size() > limits::kMaxStoreValue)
    return Errc::limit_exceeded;
  const auto old = values_.find(key);
  const std::size_t before = old == values_.end() ? 0 : key.size() + old->second.size();
  const std::size_t after = bytes_ - before + key.size() + value.size();
  if (after > limits::kMaxStoreBytes) return Errc::limit_exceeded;
  bytes_ = after;
  const auto [first, last] = waiting_for_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    answers.push_back({it->second->second.waiter, Errc::ok, value});
    waiting_.erase(it->second);
  }
  waiting_for_.erase(first, last);
  values_[key] = std::move(value);
  return Errc::ok;
}

void Store::get(const std::string& key, Waiter waiter, TimePoint now,
                std::chrono::milliseconds wait, std::vector<Answer>& answers) {
  const auto found = values_.find(key);
  if (found != values_.end()) {
    answers.push_back({waiter, Errc::ok, found->second});
  } else if (wait.count() <= 0) {
    answers.push_back({waiter, Errc::not_found, {}});
  } else if (key.size() > limits::kMaxStoreKey || waiting_.size() >= limits::kMaxStoreWaiters) {
    answers.push_back({waiter, Errc::limit_exceeded, {}});
  } else {
    const auto deadline = now + std::min(wait, limits::kMaxStoreWait);
    waiting_for_.emplace(key, waiting_.emplace(deadline, Pending{key, waiter}));
  }
}

void Store::erase_index(Pendings::iterator pending) {
  const auto [first, last] = waiting_for_.equal_range(pending->second.key);
  const auto it = std::find_if(first, last, [&](const auto& e) { return e.second == pending; });
  if (it != last) waiting_for_.erase(it);
}

void Store::expire(TimePoint now, std::vector<Answer>& answers) {
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    answers.push_back({waiting_.begin()->second.waiter, Errc::timeout, {}});
    erase_index(waiting_.begin());
    waiting_.erase(waiting_.begin());
  }
}

std::optional<TimePoint> Store::next_deadline() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first;
}

void Store::forget_host(std::uint32_t host) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->second.waiter.host != host) {
      ++it;
      continue;
    }
    erase_index(it);
    it = waiting_.erase(it);
  }
}

void Store::reset(std::vector<Answer>& answers) {
  for (const auto& [deadline, pending] : waiting_)
    answers.push_back({pending.waiter, Errc::wrong_epoch, {}});
  waiting_.clear();
  waiting_for_.clear();
  values_.clear();
  bytes_ = 0;
}

}  // namespace hvdrun
