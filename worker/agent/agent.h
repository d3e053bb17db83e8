// The agent of one host: starts and watches its workers, speaks for them with the coordinator, and
// leaves nothing alive behind it. One thread; a child of the guard.
//
//   agent.cpp          connections, the coordinator's words, ends of ranks, signals, the lease
//   agent_launch.cpp   from a launch to ranks that run
//   agent_elastic.cpp  slots that are started again, and new epochs
//   agent_horovod.cpp  Horovod's store, for the ranks of this host
//   agent_probes.cpp   answers about the ranks' processes
//   agent_end.cpp      how it leaves once the job is over
//
// AgentWatch (agent_watch.h) is the guard's: it looks at the agent from outside.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/lease.h"
#include "common/host/rank_environment.h"
#include "common/process/process.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"
#include "worker/agent/horovod/hosts_notifier.h"
#include "worker/agent/horovod/mirror_server.h"
#include "worker/agent/output/file_sync.h"
#include "worker/agent/output/input_pump.h"
#include "worker/agent/output/output_pump.h"
#include "worker/agent/output/timeline_outbox.h"
#include "worker/agent/ranks/held_pipes.h"
#include "worker/agent/ranks/kill_ladder.h"
#include "worker/agent/way_back.h"
#include "worker/agent/worker_server.h"

namespace hvdrun {

class Agent {
 public:
  // `guard` is a pipe whose other end the guard holds: its end of file means that the guard is
  // gone.
  Agent(boost::asio::io_context& io, Bootstrap bootstrap, UniqueFd guard);
  // Serves until the job is over here. Returns an exit code: 0 when the coordinator ended the job.
  int run();

 private:
  using Channel = std::shared_ptr<FrameChannel>;
  struct Worker {
    std::uint32_t rank = 0;
    Process process;
  };

  void open(Role role, std::function<void(Channel)> next);
  void say_hello(const Channel& channel, Role role, std::function<void(Channel)> next);
  void watch_guard();
  void serve(const Channel& control);
  void on_control(const Frame& frame);
  void on_output_channel(const Frame& frame);

  void check_launch(const Launch& message, std::uint32_t epoch);
  void launch(const Launch& message, std::uint32_t epoch);
  // `later`: the job runs already, and what hvdrun reads from its stdin is not for it.
  void start_worker(const Launch& message, const RankPlace& slot, const std::string& agent,
                    std::uint32_t start = 0, bool later = false);
  // HVD_AGENT of this host's workers.
  // A host that is opened again may have an earlier agent yet.
  std::string workers_address() const {
    return "@hvdrun-" + bootstrap_.job_id + "-" + std::to_string(bootstrap_.host_index) + "-" +
           std::to_string(::getpid());
  }
  static std::string interface_for_others(const Launch& message);
  void begin_epoch(const BeginEpoch& message, std::uint32_t epoch);
  void start_again(const StartSlot& message);
  void end_slot(const EndSlot& message);
  void retire(const EndSlot& message);
  void retire_step(pid_t process, std::optional<int> signal);
  void tick_retiring(std::chrono::steady_clock::time_point now);
  // Its process is dead, or as good as that.
  void slot_died(std::uint32_t slot);
  // For processes that write core files, and for dead ones that live on.
  void look_at_ranks();
  bool looks_at_ranks() const { return again_ && !ending_ && !workers_.empty(); }
  void sync_files(const Launch& message);
  bool serve_horovod(const Launch& message);
  void tell_horovod(const StartSlot& message);
  void notify_horovod(HorovodNotice message);
  HorovodPlace horovod_place(const Launch& message, const RankPlace& slot) const;
  bool gets_input(std::uint32_t rank) const;
  void reap();
  // In an elastic job SIGTERM means that the host goes away soon. In others it ends the agent.
  void watch_for_leave();
  void worker_ended(std::uint32_t rank, std::uint32_t pid, const ExitStatus& status);
  void debug(const std::string& text);  // a line for the user of --verbose
  void kill_ranks(const KillRanks& message);
  void kill_step(std::optional<int> signal);
  void signal_ranks(std::uint32_t signal);
  void probe_ranks(const ProbeRanks& message);
  // Asks for the coordinator's clock and sends events, when it is time for either.
  void move_timeline();
  void send_pictures(HostSurvey::Answer answer);
  void end_job();
  void finish_if_quiet();
  // The lease, the guard or the coordinator is gone: kill everything at once and leave.
  void give_up();

  std::chrono::milliseconds lease_length() const {
    return std::chrono::milliseconds(bootstrap_.lease_ms);
  }
  // After the end of the job the coordinator may leave first, and says nothing more.
  bool holds_lease() const { return lease_ && (!ending_ || control_); }
  void arm_timer();
  void on_timer();

  template <class M>
  void up(const M& message) {
    if (control_) control_->send(message, epoch_);
  }

  boost::asio::io_context& io_;
  Bootstrap bootstrap_;
  boost::asio::posix::stream_descriptor guard_;
  std::array<char, 4096> guard_buffer_{};
  WayBack way_back_;
  boost::asio::signal_set child_signal_;
  boost::asio::signal_set leave_signal_;
  boost::asio::steady_timer timer_;
  Channel control_;
  Channel output_;
  OutputPump pump_;
  HeldPipes held_pipes_;
  InputPump input_;
  TimelineOutbox timeline_;
  std::unique_ptr<FileSync> files_;  // with --sync-dir, where hvdrun is on another machine
  std::error_code no_files_;         // why its folder could not be made
  std::unique_ptr<WorkerServer> workers_server_;
  std::unique_ptr<MirrorServer> horovod_;  // where each agent has a store's port
  std::unique_ptr<HostsNotifier> notifier_;
  std::map<pid_t, Worker> workers_;       // alive, by process id
  std::set<std::uint32_t> told_of_loss_;  // ranks whose stderr said that a peer is gone
  KillLadder ladder_;
  UniqueFd master_socket_;       // holds the MASTER_PORT
  std::uint64_t oom_kills_ = 0;  // of the machine, when the workers had just started
  std::uint32_t epoch_ = 0;
  std::uint64_t descriptor_limit_ = 0;  // of the workers: as it was before ours was raised
  std::uint32_t cores_ = 1;
  // The coordinator's words renew it. None on the coordinator's own machine: the end of the
  // connection tells of its death, and its parent is told when it stops.
  std::optional<Lease> lease_;
  TimePoint next_heartbeat_;
  std::optional<Launch> checked_;                // waits for StartRanks
  std::optional<Launch> again_;                  // of an elastic job: what a slot's next process is
  std::map<std::uint32_t, pid_t> last_process_;  // of each slot of such a job, once it has ended
  struct Dying {
    TimePoint since;
    bool killed = false;  // by us
    bool told = false;    // that it does not end
  };
  std::map<std::uint32_t, Dying> dying_;          // slots of such a job
  std::map<std::uint32_t, KillLadder> retiring_;  // slots of such a job that are not needed
  TimePoint next_look_;
  bool launched_ = false;
  bool ending_ = false;
  bool sweeping_ = false;
  int exit_code_ = 1;
};

}  // namespace hvdrun
