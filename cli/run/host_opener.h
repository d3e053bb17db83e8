// Opens the hosts that are other machines, many at once, and says what becomes of it: which are
// waited for, and all that cannot be used, together. Chooses for each what opens it. With
// SshOptions::waits_for_hosts those that are not there yet are tried until the job ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/hosts/name_resolver.h"
#include "cli/openers/client_output.h"
#include "cli/openers/host_relay.h"
#include "cli/openers/opening_retry.h"
#include "cli/openers/remote_host.h"
#include "cli/openers/ssh/ssh_choice.h"
#include "cli/openers/ssh/ssh_command.h"

namespace hvdrun {

class HostOpener {
 public:
  struct Refusal {
    std::string host;
    std::string why;                 // stage and what ssh or srun said
    std::vector<std::string> lines;  // for the user
  };
  struct Callbacks {
    std::function<void(const std::string&)> say;
    // Its agent has called back.
    std::function<bool(std::uint32_t host)> is_connected;
    // No agent will come from this host.
    std::function<void(std::uint32_t host)> gone;
    // Its agent reaches no address of this machine: its connections go through what opened it.
    std::function<void(std::uint32_t host)> relayed;
    // The carrier of this host is gone. A reason when the job was on its way to it, and it is lost.
    std::function<void(std::uint32_t host, const std::optional<std::string>& why)> ended;
    // Every host was tried, and some cannot be used.
    std::function<void(const std::vector<Refusal>&)> failed;
  };

  // `descriptor_limit`: of srun's steps; 0: as hvdrun's.
  HostOpener(boost::asio::io_context& io, SshOptions options, std::chrono::milliseconds limit,
             RelayPorts ports, std::uint64_t descriptor_limit, Callbacks callbacks);

  void add(std::uint32_t host, const std::string& name, const HostLogin& login,
           std::shared_ptr<const AgentImage> agent, std::string job);
  // A host that joins a job which runs, `here`: a part of this machine, which no ssh has to open.
  // It is opened by reopen(), as one that was lost.
  void add_later(std::uint32_t host, const std::string& name, const HostLogin& login, bool here,
                 std::shared_ptr<const AgentImage> agent, std::string job);
  void open();
  // A host that is lost: what is left of its last opening is given up, and it is tried, after a
  // pause that grows with `opening`, until the job ends. Nothing that goes wrong is final.
  // `at_once`: it is new, or was not needed for a while.
  void reopen(std::uint32_t host, std::uint32_t opening, bool at_once);
  // It is not needed any more: nobody tries to open it.
  void leave_alone(std::uint32_t host);
  std::uint32_t opening(std::uint32_t host) const { return hosts_.at(host)->turn; }
  bool has(std::uint32_t host) const { return hosts_.contains(host); }

  // Nothing more is opened, and everything ends: on all hosts, or on those without an agent, who
  // cannot hear of it otherwise.
  void end_all();
  void end_unconnected();
  // Ends what carries it: the host does not answer any more.
  void give_up(std::uint32_t host);
  // Waits until nothing would stay behind on a host when hvdrun and all its children are gone, but
  // not longer than this. The loop must not run any more.
  void leave(std::chrono::milliseconds limit);
  // Processes on this machine that were started for hosts and are not reaped yet.
  std::vector<pid_t> clients() const;
  // The reason why it is gone, as far as what carries it has said so; empty: nothing.
  std::string cause(std::uint32_t host) const;
  // Those that nothing can be started on, or not yet: lines for the user.
  std::vector<std::string> not_opened();

 private:
  struct Host {
    Host(std::uint32_t number, bool waits) : index(number), retry(waits, number) {}

    std::uint32_t index;
    std::string name;
    bool here = false;  // on this machine
    SshOptions options;
    RemoteHost::Request request;
    std::string script;
    std::unique_ptr<ClientOutput> query;
    std::vector<std::unique_ptr<RemoteHost>> tries;  // the last one is under way
    std::unique_ptr<HostRelay> relay;                // of the last one
    bool by_libssh2 = false;
    std::optional<std::chrono::milliseconds> client_limit;  // of one try of the client
    OpeningRetry retry;
    std::uint32_t turn = 0;      // its number; the first of all is 0
    std::uint32_t failures = 0;  // openings that followed the loss of the last one
    bool superseded = false;     // another opening has taken its place
    std::string last_fault;      // of an opening after the first, told once
    std::chrono::milliseconds reopen_pause{};
    std::unique_ptr<boost::asio::steady_timer> pause;  // before it is tried again
    // The time of one try of an opening after the first, which nobody else limits.
    std::unique_ptr<boost::asio::steady_timer> patience;
    // It is not there yet, as it was found last, and is tried again and again.
    struct Absence {
      std::string stage;
      std::string why;
    };
    std::optional<Absence> absence;
    enum class State { waiting, asking, running, pausing, ended } state = State::waiting;

    bool opening() const {
      return state == State::asking || (state == State::pausing && !absence) ||
             (state == State::running && !tries.back()->started());
    }
  };

  const char* stage(const Host& host) const;

  void open_next();
  void open(Host& host);
  // The reason why the client is to open every host; empty: it is not.
  const char* client_reason() const;
  void ask(Host& host);
  void choose(Host& host, const std::optional<std::string>& config);
  void open_with(Host& host, const SshConfig& config);
  void open_by_libssh2(Host& host, Libssh2Target target);
  void open_by_client(Host& host, const std::string& why);
  void open_by_srun(Host& host);
  void open_here(Host& host);
  // An opening that has not begun takes the place of the last one, which ends.
  Host& supersede(std::uint32_t host);
  void start(Host& host, std::unique_ptr<RemoteHost> way);
  void limit(Host& host);
  RemoteHost::Callbacks callbacks_of(Host& host);
  void on_ended(Host& host, const RemoteHost::End& end);
  void try_later(Host& host, const RemoteHost::End& end, const OpeningRetry::Again& again);
  // An opening that another one has taken the place of, and that has ended.
  void forget(Host& last);
  void reopen_later(Host& host, const RemoteHost::End& end);
  void try_after(Host& host, std::chrono::milliseconds pause);
  // True: it is tried until it answers.
  bool is_waited_for(const Host& host) const { return options_.waits_for_hosts || host.turn > 0; }
  void try_again(Host& host);
  void refuse(Host& host, const std::string& at, const RemoteHost::End& end);
  void tell_if_all_tried();
  void report();
  void end_unopened();
  const SshSurroundings& surroundings();

  boost::asio::io_context& io_;
  const SshOptions options_;
  const std::chrono::milliseconds limit_;
  const RelayPorts relay_ports_;
  const std::uint64_t descriptor_limit_;
  const Callbacks callbacks_;
  boost::asio::steady_timer timer_;
  NameResolver resolver_;
  std::optional<SshSurroundings> here_;
  bool no_client_ = false;  // there is no ssh program
  std::map<std::uint32_t, std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Host>> superseded_;  // until they have ended
  std::deque<Host*> waiting_;
  std::vector<Refusal> refusals_;
  bool ending_ = false;
};

}  // namespace hvdrun
