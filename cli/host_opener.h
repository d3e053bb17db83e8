// Opens the hosts that are other machines, many at once, and says what becomes of it: which are
// waited for, and all that cannot be used, together.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/host_relay.h"
#include "cli/ssh_command.h"
#include "cli/ssh_host.h"

namespace hvdrun {

class HostOpener {
 public:
  struct Refusal {
    std::string host;
    std::string why;                 // stage and what ssh said
    std::vector<std::string> lines;  // for the user
  };
  struct Callbacks {
    std::function<void(const std::string&)> say;
    // The client for this host runs; whoever reaps it calls ended().
    std::function<void(std::uint32_t host, const Process&)> started;
    // Its agent has called back.
    std::function<bool(std::uint32_t host)> is_connected;
    // No agent will come from this host.
    std::function<void(std::uint32_t host)> gone;
    // Its agent reaches no address of this machine: its connections go through ssh.
    std::function<void(std::uint32_t host)> relayed;
    // Every host was tried, and some cannot be used.
    std::function<void(const std::vector<Refusal>&)> failed;
  };

  HostOpener(boost::asio::io_context& io, SshOptions options, std::chrono::milliseconds limit,
             RelayPorts ports, Callbacks callbacks);

  void add(std::uint32_t host, const std::string& name, const HostLogin& login,
           std::shared_ptr<const AgentImage> agent, std::string job);
  void open();

  // The client has ended. A reason when the job was on its way to this host, and it is lost to it.
  std::optional<std::string> ended(std::uint32_t host, const ExitStatus& status);
  // Nothing more is opened, and everything ends: on all hosts, or on those without an agent, who
  // cannot hear of it otherwise.
  void end_all();
  void end_unconnected();

 private:
  struct Host {
    std::uint32_t index;
    std::string name;
    SshOptions options;
    SshHost ssh;
    std::unique_ptr<HostRelay> relay;
    enum class State { waiting, running, ended } state = State::waiting;

    bool opening() const { return state == State::running && !ssh.started(); }
  };

  SshHost::Callbacks callbacks_of(Host& host);
  void open_next();
  void refuse(Host& host, const std::string& why);
  void tell_if_all_tried();
  void report();

  boost::asio::io_context& io_;
  const SshOptions options_;
  const std::chrono::milliseconds limit_;
  const RelayPorts relay_ports_;
  const Callbacks callbacks_;
  boost::asio::steady_timer timer_;
  std::map<std::uint32_t, std::unique_ptr<Host>> hosts_;
  std::deque<Host*> waiting_;
  std::vector<Refusal> refusals_;
  bool ending_ = false;
};

}  // namespace hvdrun
