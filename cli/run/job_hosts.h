// The hosts of a running job, where they may change: what its source lists, and what its user says
// by hand. Tells the coordinator, by the numbers that hosts have in the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "cli/hosts/host_orders.h"
#include "cli/plan/host_growth.h"
#include "cli/run/host_watch.h"
#include "common/wire/messages.h"

namespace hvdrun {

class JobHosts {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> say;
    std::function<void(const HostsListed&)> send;  // the plan has its hosts
  };

  // The plan's hosts are those of its entries; it gets those that are new. It lives longer.
  JobHosts(boost::asio::io_context& io, LaunchPlan& plan, Callbacks callbacks);

  // The user's word, and the answer.
  HostsReply order(const HostsOrder& order);
  // Nothing is read or told any more.
  void stop();
  // The program that reads the source now, if one does.
  std::optional<pid_t> reader() const { return watch_ ? watch_->reader() : std::nullopt; }

 private:
  HostsReply reload();
  // The hosts are to be others now. In words.
  std::string send(std::vector<std::uint32_t> ended);

  LaunchPlan& plan_;
  const Callbacks callbacks_;
  HostGrowth growth_;
  HostOrders orders_;
  std::optional<HostWatch> watch_;  // none without a source
};

}  // namespace hvdrun
