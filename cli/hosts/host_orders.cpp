#include "cli/hosts/host_orders.h"

#include <algorithm>

#include "cli/text/user_errors.h"

namespace hvdrun {
namespace {

bool is(const HostEntry& a, const HostEntry& b) { return a.name == b.name && a.login == b.login; }

void forget(std::vector<HostEntry>& hosts, const HostEntry& host) {
  std::erase_if(hosts, [&](const HostEntry& other) { return is(other, host); });
}

}  // namespace

void HostOrders::add(const HostEntry& host) {
  forget(left_, host);
  forget(added_, host);
  added_.push_back(host);
}

bool HostOrders::leave(const HostEntry& host) {
  const std::vector<HostEntry> all = hosts();
  if (std::none_of(all.begin(), all.end(), [&](const auto& other) { return is(other, host); }))
    return false;
  forget(added_, host);
  forget(left_, host);
  left_.push_back(host);
  return true;
}

std::vector<HostEntry> HostOrders::hosts() const {
  std::vector<HostEntry> all = listed_;
  for (const HostEntry& left : left_) forget(all, left);
  for (const HostEntry& added : added_) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const HostEntry& other) { return is(other, added); });
    if (found != all.end())
      found->slots = added.slots;
    else
      all.push_back(added);
  }
  return all;
}

std::vector<HostEntry> parse_ordered_hosts(const std::string& word) {
  HostListProblem problem;
  const auto hosts = parse_host_list(word, problem);
  if (!hosts) throw UsageError("'" + word + "': " + problem.text);
  return *hosts;
}

}  // namespace hvdrun
