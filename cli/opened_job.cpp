#include "cli/opened_job.h"

#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "cli/log.h"
#include "common/random.h"
#include "common/unix_stream.h"
#include "coordinator/daemon.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

UniqueFd listen_on_loopback(std::string& address) {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  address = to_address(acceptor.local_endpoint());
  // Asio made it non-blocking already; it goes on to a process of its own or to the viewer.
  return UniqueFd(acceptor.release());
}

InputFor input_for(const StdinTo& to) {
  switch (to.who) {
    case StdinTo::Who::one:
      return InputFor::one_rank;
    case StdinTo::Who::all:
      return InputFor::all_ranks;
    case StdinTo::Who::none:
      break;
  }
  return InputFor::nobody;
}

Bootstrap make_bootstrap(const LaunchPlan& plan, const OpenedJob& opened, std::uint32_t host) {
  Bootstrap bootstrap;
  bootstrap.job_id = plan.spec.job_id;
  bootstrap.secret = opened.secret;
  bootstrap.host_index = host;
  bootstrap.host_name = plan.spec.hosts[host].name;
  bootstrap.lease_ms = static_cast<std::uint32_t>(plan.spec.lease.count());
  bootstrap.verbose = plan.verbose;
  bootstrap.isolation = plan.isolation;
  bootstrap.input = input_for(plan.output.stdin_to);
  bootstrap.input_rank = plan.output.stdin_to.rank;
  if (!opened.control_address.empty()) {
    bootstrap.control.addresses = {opened.control_address};
    bootstrap.output.addresses = {opened.viewer_address};
  }
  return bootstrap;
}

}  // namespace

OpenedJob open_job(const LaunchPlan& plan) {
  OpenedJob opened;
  opened.agent_program = agent_program();
  if (!plan.events_file.empty()) opened.events = EventLog(plan.events_file, plan.spec.job_id);
  if (!plan.output.folder.empty())
    opened.files = std::make_unique<OutputFiles>(plan.output.folder, plan.spec.np);
  opened.secret = random_bytes(kSecretBytes);
  Membership members(plan.spec.hosts);
  members.assign(plan.spec.np);
  for (const std::uint32_t index : members.hosts_used()) {
    opened.hosts.emplace_back();
    opened.hosts.back().index = index;
  }
  ServerOptions options;
  options.spec = plan.spec;
  options.driver_pid = static_cast<std::uint32_t>(::getpid());
  if (plan.spec.env_compat.horovod)
    options.horovod = open_horovod_listener(options.spec.horovod_port);
  auto driver_line = make_socket_pair();
  opened.coordinator_end = std::move(driver_line.first);
  options.driver = std::move(driver_line.second);
  std::vector<LocalConnections> connections(opened.hosts.size());
  if (plan.control == ControlTransport::tcp) {
    options.listener = listen_on_loopback(opened.control_address);
    options.secret = opened.secret;
    opened.viewer_listener = listen_on_loopback(opened.viewer_address);
  } else {
    for (std::size_t i = 0; i < opened.hosts.size(); ++i) {
      auto control = make_socket_pair();
      auto output = make_socket_pair();
      connections[i].control = std::move(control.first);
      connections[i].output = std::move(output.first);
      options.agents.push_back(std::move(control.second));
      opened.hosts[i].viewer_end = std::move(output.second);
    }
  }
  opened.coordinator = start_coordinator(std::move(options));
  log_line(LogLevel::debug, "coordinator is process " + std::to_string(opened.coordinator.pid));
  for (std::size_t i = 0; i < opened.hosts.size(); ++i) {
    OpenedJob::Host& host = opened.hosts[i];
    host.fault = open_local_host(opened.agent_program, make_bootstrap(plan, opened, host.index),
                                 std::move(connections[i]), host.open);
    if (!host.fault)
      log_line(LogLevel::debug, "guard on " + plan.spec.hosts[host.index].name + " is process " +
                                    std::to_string(host.open.guard.pid));
  }
  return opened;
}

}  // namespace hvdrun
