#include "cli/run/job_hosts.h"

#include <utility>

#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

HostsReply refusal(const std::string& why) { return {exit_code::kUsage, why}; }

}  // namespace

JobHosts::JobHosts(boost::asio::io_context& io, LaunchPlan& plan, Callbacks callbacks)
    : plan_(plan), callbacks_(std::move(callbacks)), growth_(plan), orders_(plan.entries) {
  if (plan.source.kind == HostSource::Kind::none) return;
  watch_.emplace(io, plan.source, plan.entries,
                 HostWatch::Callbacks{callbacks_.say, [this](std::vector<HostEntry> entries) {
                                        orders_.list(std::move(entries));
                                        callbacks_.say(plan_.source.where + ": " + send({}));
                                      }});
  watch_->start();
}

void JobHosts::stop() {
  if (watch_) watch_->stop();
}

std::string JobHosts::send(std::vector<std::uint32_t> ended) {
  HostsListed message;
  message.hosts = growth_.number(orders_.hosts(), plan_);
  message.ended = std::move(ended);
  std::uint64_t slots = 0;
  for (const ListedHost& host : message.hosts) slots += host.slots;
  callbacks_.send(message);
  return std::to_string(message.hosts.size()) + (message.hosts.size() == 1 ? " host" : " hosts") +
         " with " + std::to_string(slots) + (slots == 1 ? " slot" : " slots") + " now";
}

HostsReply JobHosts::reload() {
  if (!watch_) return refusal("this job has no list of hosts that could be read again");
  watch_->reload();
  return {exit_code::kOk, plan_.source.text + " is read again"};
}

HostsReply JobHosts::order(const HostsOrder& order) {
  if (order.verb == HostsOrder::Verb::reload) return reload();
  const bool adds = order.verb == HostsOrder::Verb::add;
  HostOrders next = orders_;
  std::vector<HostEntry> leaving;
  try {
    for (const std::string& word : order.hosts) {
      for (const HostEntry& host : parse_ordered_hosts(word)) {
        if (adds) {
          next.add(host);
          continue;
        }
        if (!next.leave(host))
          return refusal("the job has no host " + spell_host(host.name, host.login));
        leaving.push_back(host);
      }
    }
  } catch (const UsageError& e) {
    return refusal(e.what());
  }
  if (next.hosts().empty()) return refusal("the job would have no host; end it instead");
  std::vector<std::uint32_t> ended;
  if (order.verb == HostsOrder::Verb::remove)
    for (const ListedHost& host : growth_.number(leaving, plan_)) ended.push_back(host.index);
  orders_ = std::move(next);
  const std::string words = send(std::move(ended));
  callbacks_.say("hvdrun hosts: " + words);
  return {exit_code::kOk, words};
}

}  // namespace hvdrun
