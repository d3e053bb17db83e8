#include "cli/run/opened_job.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "cli/text/log.h"
#include "common/base/random.h"
#include "common/horovod/horovod_server.h"
#include "common/net/host_addresses.h"
#include "common/net/open_port.h"
#include "common/net/unix_stream.h"
#include "common/process/process_tree.h"
#include "coordinator/daemon.h"
#include "hvdrun_config.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// An agent tries this machine's addresses for a part of the time that hosts have to come up; then
// its connections go through ssh.
constexpr int kDialShare = 10;
constexpr std::chrono::milliseconds kShortestDial{1'000};

// A socket that listens, and the addresses at which agents find it.
struct Listener {
  UniqueFd socket;
  std::vector<std::string> addresses;
};

Listener listen_on_loopback() {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const std::string address = endpoint_text(acceptor.local_endpoint());
  // Asio made it non-blocking already; it goes on to a process of its own or to the viewer.
  return {UniqueFd(acceptor.release()), {address}};
}

// For other hosts: at every address of this machine, since any of them may be the one that they can
// reach. A stranger fails the TLS handshake.
Listener listen_everywhere(const std::vector<std::string>& hosts, PortRange range) {
  std::error_code ec;
  Listener listener;
  listener.socket = open_port_everywhere(range, PortUse::listens, ec);
  if (ec == std::errc::address_in_use && range.first != 0)
    throw HostError("--port-range " + std::to_string(range.first) + "-" +
                    std::to_string(range.last) + ": no port of it is free any more");
  if (ec) throw std::system_error(ec, "a port for the other hosts");
  for (const std::string& host : hosts)
    listener.addresses.push_back(
        endpoint_text({asio::ip::make_address(host), port_of(listener.socket)}));
  return listener;
}

// Beside this program, as in the build folder, or where it is installed to, as seen from this
// program's own folder; unless HVDRUN_AGENT names another.
std::string agent_for_other_hosts(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const auto beside = folder / "hvd-agent";
  if (std::filesystem::exists(beside, ignored)) return beside.string();
  return (folder / HVDRUN_AGENT_DIR / "hvd-agent").lexically_normal().string();
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

// `over_tcp`: its agent has no socket from here.
Bootstrap make_bootstrap(const LaunchPlan& plan, const OpenedJob& opened, std::uint32_t host,
                         bool over_tcp) {
  Bootstrap bootstrap;
  bootstrap.job_id = plan.spec.job_id;
  bootstrap.secret = opened.secret;
  bootstrap.host_index = host;
  bootstrap.host_name = plan.spec.hosts()[host].name;
  bootstrap.lease_ms = static_cast<std::uint32_t>(plan.spec.lease.count());
  bootstrap.verbose = plan.verbose;
  bootstrap.isolation = plan.isolation;
  bootstrap.input = input_for(plan.output.stdin_to);
  bootstrap.input_rank = plan.output.stdin_to.rank;
  bootstrap.first_port = plan.network.ports.first;
  bootstrap.last_port = plan.network.ports.last;
  bootstrap.encrypt_data = plan.network.encrypt_data;
  bootstrap.sync_folder = plan.sync.folder;
  bootstrap.sync_apart = plan.sync.is_used && plan.remote[host];
  bootstrap.relay = plan.remote[host];
  bootstrap.dial_ms = static_cast<std::uint32_t>(
      std::clamp(plan.spec.start_timeout / kDialShare, kShortestDial, limits::kHandshakeTimeout)
          .count());
  if (over_tcp) {
    bootstrap.control.addresses = opened.control_addresses;
    bootstrap.output.addresses = opened.output_addresses;
  }
  return bootstrap;
}

// A reader that has gone away meanwhile does not keep a job from starting again.
EventLog open_events(const LaunchPlan& plan) {
  try {
    return {plan.events_file, plan.spec.job_id};
  } catch (const UsageError& e) {
    if (plan.restarts.count == 0) throw;
    log_line(LogLevel::warn, std::string(e.what()) + "; no more events are written");
    return {};
  }
}

// Each start of the job has a file of its own: trace.json, then trace.1.json. Not so a pipe.
TimelineOptions of_restart(TimelineOptions options, std::uint32_t count) {
  const std::filesystem::path path(options.file);
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  const bool is_other =
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  if (count == 0 || options.file.empty() || is_other) return options;
  const std::string name =
      path.stem().string() + "." + std::to_string(count) + path.extension().string();
  return {(path.parent_path() / name).string(), options.dynamic};
}

}  // namespace

OpenedJob open_job(const LaunchPlan& plan) {
  OpenedJob opened;
  opened.agent_program = agent_program();
  if (!plan.events_file.empty()) opened.events = open_events(plan);
  if (!plan.output.folder.empty())
    opened.files = std::make_unique<OutputFiles>(
        plan.output.folder, plan.restarts.first_np,
        plan.restarts.count == 0 ? OutputFiles::Begin::anew : OutputFiles::Begin::goes_on);
  opened.timeline = std::make_unique<TimelineSink>(of_restart(plan.timeline, plan.restarts.count));
  if (plan.sync.is_used)
    opened.synced =
        std::make_unique<SyncedFiles>(plan.sync.folder, plan.sync.where, plan.spec.job_id);
  opened.secret = random_bytes(kSecretBytes);
  bool any_remote = false;
  for (const std::uint32_t index : plan.spec.ranks.hosts_used()) {
    opened.hosts.emplace_back();
    opened.hosts.back().index = index;
    opened.hosts.back().remote = plan.remote[index];
    any_remote = any_remote || plan.remote[index];
  }
  // Some processes are not to end with the job: children that the shell had before it became
  // hvdrun, and what a client leaves behind, as the master of a ControlPersist.
  const bool other_machines = any_remote || plan.spec.max_np > 0;
  opened.reaps_all = !other_machines && !has_children();
  if (opened.reaps_all) become_subreaper();
  ServerOptions options;
  options.spec = plan.spec;
  Listener control;
  Listener output;
  if (other_machines) {
    opened.agent_image = std::make_shared<const AgentImage>(
        read_agent_image(agent_for_other_hosts(opened.agent_program)));
    // A machine without a network may still be the only host.
    const std::vector<HostAddress> own = host_addresses();
    const bool may_leave =
        std::find(plan.remote.begin(), plan.remote.end(), true) != plan.remote.end();
    const bool is_alone = own.empty()
                              ? !any_remote
                              : !may_leave && stays_here(plan.network, interface_of("127.0.0.1"));
    opened.offered =
        is_alone ? std::vector<std::string>{"127.0.0.1"} : offered_addresses(plan.network, own);
    control = listen_everywhere(opened.offered, plan.network.ports);
    output = listen_everywhere(opened.offered, plan.network.ports);
    opened.relay_ports = {port_of(control.socket), port_of(output.socket)};
  } else if (plan.control == ControlTransport::tcp) {
    control = listen_on_loopback();
    output = listen_on_loopback();
  }
  opened.control_addresses = control.addresses;
  opened.output_addresses = output.addresses;
  if (control.socket) {
    options.listener = std::move(control.socket);
    options.secret = opened.secret;
    opened.viewer_listener = std::move(output.socket);
  }
  options.driver_pid = static_cast<std::uint32_t>(::getpid());
  // One agent's ranks need no other to carry their requests.
  // The agents of an elastic job have it each: other hosts may come.
  if (plan.spec.env_compat.horovod && !other_machines && opened.hosts.size() == 1 &&
      plan.spec.min_np == 0)
    options.horovod = open_horovod_listener(options.spec.horovod_port);
  auto driver_ends = make_socket_pair();
  opened.coordinator_end = std::move(driver_ends.first);
  options.driver = std::move(driver_ends.second);
  std::vector<LocalConnections> connections(opened.hosts.size());
  for (std::size_t i = 0; i < opened.hosts.size(); ++i) {
    if (opened.hosts[i].remote || plan.control == ControlTransport::tcp) continue;
    auto to_control = make_socket_pair();
    auto to_viewer = make_socket_pair();
    connections[i].control = std::move(to_control.first);
    connections[i].output = std::move(to_viewer.first);
    options.agents.push_back(std::move(to_control.second));
    opened.hosts[i].viewer_end = std::move(to_viewer.second);
  }
  opened.coordinator = start_coordinator(std::move(options));
  log_line(LogLevel::debug, "coordinator is process " + std::to_string(opened.coordinator.pid));
  for (std::size_t i = 0; i < opened.hosts.size(); ++i) {
    OpenedJob::Host& host = opened.hosts[i];
    Bootstrap bootstrap = make_bootstrap(
        plan, opened, host.index, plan.control == ControlTransport::tcp || plan.remote[host.index]);
    if (host.remote) {
      host.job = encode_frame(bootstrap);
      continue;
    }
    host.fault = open_local_host(opened.agent_program, !opened.reaps_all, std::move(bootstrap),
                                 std::move(connections[i]), host.open);
    if (!host.fault)
      log_line(LogLevel::debug, "guard on " + plan.spec.hosts()[host.index].name + " is process " +
                                    std::to_string(host.open.guard.pid));
  }
  return opened;
}

std::string job_of_later_host(const LaunchPlan& plan, const OpenedJob& opened, std::uint32_t host) {
  return encode_frame(make_bootstrap(plan, opened, host, true));
}

}  // namespace hvdrun
