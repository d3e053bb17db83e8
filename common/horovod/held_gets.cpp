#include "common/horovod/held_gets.h"

namespace hvdrun {
namespace {

std::string name_of(std::string_view scope, std::string_view key) {
  return std::string(scope).append("/").append(key);
}

// Gloo waits for the addresses of its peers, whose keys are their ranks.
bool is_waited_for(std::string_view key) {
  return key.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool HeldGets::hold(Waiter waiter, std::string_view scope, std::string_view key) {
  if (keys_.size() >= limit_ || !is_waited_for(key)) return false;
  const auto [held, is_new] = keys_.emplace(waiter, name_of(scope, key));
  if (is_new) waiters_.emplace(held->second, waiter);
  return is_new;
}

std::vector<HeldGets::Waiter> HeldGets::take(std::string_view scope, std::string_view key) {
  std::vector<Waiter> found;
  if (keys_.empty()) return found;
  const auto [begin, end] = waiters_.equal_range(name_of(scope, key));
  for (auto it = begin; it != end; ++it) {
    found.push_back(it->second);
    keys_.erase(it->second);
  }
  waiters_.erase(begin, end);
  return found;
}

bool HeldGets::forget(Waiter waiter) {
  const auto held = keys_.find(waiter);
  if (held == keys_.end()) return false;
  const auto [begin, end] = waiters_.equal_range(held->second);
  for (auto it = begin; it != end; ++it) {
    if (it->second != waiter) continue;
    waiters_.erase(it);
    break;
  }
  keys_.erase(held);
  return true;
}

}  // namespace hvdrun
