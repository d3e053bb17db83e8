// The messages between the coordinator and the agents, and between it and the driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/host/rank_place.h"
#include "common/process/kill_steps.h"
#include "common/wire/base_messages.h"

namespace hvdrun {

struct AgentReady {
  static constexpr auto kType = MessageType::agent_ready;
  std::uint32_t pid = 0;
  std::uint32_t usable_cores = 0;
  std::uint16_t master_port = 0;  // a free TCP port that the agent holds for MASTER_PORT
  std::string address;            // of this host: its side of the connection; empty: on no network
  template <class V>
  void visit(V& v) {
    v(pid);
    v(usable_cores);
    v(master_port);
    v(address);
  }
};

// A rank's place as programs of Horovod see it.
struct HorovodSlot {
  std::string host;
  RankPlace place;
  template <class V>
  void visit(V& v) {
    v(host);
    v(place);
  }
};

// The program of the ranks from first_rank on.
struct ProgramPart {
  std::uint32_t first_rank = 0;
  std::vector<std::string> argv;
  template <class V>
  void visit(V& v) {
    v(first_rank);
    v(argv);
  }
};

// The part that a rank belongs to: the last that begins at it or before it.
inline const std::vector<std::string>& argv_of(const std::vector<std::string>& first,
                                               const std::vector<ProgramPart>& others,
                                               std::uint32_t rank) {
  const std::vector<std::string>* argv = &first;
  for (const ProgramPart& part : others)
    if (part.first_rank <= rank) argv = &part.argv;
  return *argv;
}

// The part of a Launch that is this host's alone.
struct LaunchHead {
  std::uint32_t size = 0;
  std::uint32_t host_count = 0;  // hosts that have a rank
  std::uint32_t node_rank = 0;   // index of this host among them
  std::string host_address;      // of this host, which the others use; empty: there is no other
  // Look at the programs, answer LaunchChecked, and wait for StartRanks.
  bool check_first = false;
  // The host has been opened again: the slots are started one by one (StartSlot), and none takes
  // part in the epoch.
  bool comes_back = false;
  std::vector<RankPlace> slots;
  std::vector<HorovodSlot> horovod_slots;  // of each slot; empty: as `slots`, on this host
  std::vector<std::string> host_env;       // NAME=value, on top of the job's
  template <class V>
  void visit(V& v) {
    v(size);
    v(host_count);
    v(node_rank);
    v(host_address);
    v(check_first);
    v(comes_back);
    v(slots);
    v(horovod_slots);
    v(host_env);
  }
};

// The part of a Launch that is the same for all hosts.
struct LaunchBody {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value
  std::string cwd;
  std::string plain_cwd;  // where a host has no `cwd`: the same folder, without links; or empty
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::vector<ProgramPart> programs;  // other ranks' in place of argv, by first rank
  bool env_torch = true;              // which variables of other launchers are set
  bool env_mpi_ids = true;
  bool env_horovod = true;              // there is a store that answers Horovod's dialect
  std::uint16_t horovod_port = 0;       // its port on this machine; 0: the agent is to open one
  bool allow_mpi = false;               // with check_first: let programs through that wait for MPI
  bool elastic = false;                 // slots may be started again
  std::uint64_t stall_warning_ms = 0;   // 0: never
  std::uint64_t stall_shutdown_ms = 0;  // 0: never
  template <class V>
  void visit(V& v) {
    v(argv);
    v(env);
    v(cwd);
    v(plain_cwd);
    v(master_addr);
    v(master_port);
    v(programs);
    v(env_torch);
    v(env_mpi_ids);
    v(env_horovod);
    v(horovod_port);
    v(allow_mpi);
    v(elastic);
    v(stall_warning_ms);
    v(stall_shutdown_ms);
  }
};

// Start these ranks. The epoch of the frame is the epoch of the assignment.
struct Launch : LaunchHead, LaunchBody {
  static constexpr auto kType = MessageType::launch;
  template <class V>
  void visit(V& v) {
    LaunchHead::visit(v);
    LaunchBody::visit(v);
  }
};

// A host's answer about its programs: they can start there, or why not.
struct LaunchChecked {
  static constexpr auto kType = MessageType::launch_checked;
  std::uint32_t exit_code = 0;  // of hvdrun; 0: they can
  std::string text;             // what is wrong, one line
  template <class V>
  void visit(V& v) {
    v(exit_code);
    v(text);
  }
};

// All hosts have looked, and all is well: start what Launch said.
struct StartRanks {
  static constexpr auto kType = MessageType::start_ranks;
  template <class V>
  void visit(V&) {}
};

struct RankStarted {
  static constexpr auto kType = MessageType::rank_started;
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(pid);
  }
};

enum class ExitKind : std::uint8_t {
  exited = 1,       // value: exit code
  signaled = 2,     // value: signal number
  not_started = 3,  // value: errno
  lost = 4          // it went with its host; nobody saw how
};

struct RankExited {
  static constexpr auto kType = MessageType::rank_exited;
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  ExitKind kind{};
  std::uint32_t value = 0;
  bool after_kill = false;     // the kill ladder had been started before
  bool out_of_memory = false;  // the kernel's OOM killer was at work meanwhile
  std::string detail;          // why it could not start
  template <class V>
  void visit(V& v) {
    v(rank);
    v(pid);
    v(kind);
    v(value);
    v(after_kill);
    v(out_of_memory);
    v(detail);
  }
};

// These ranks opened their line to the agent (hvd::init).
struct RanksJoined {
  static constexpr auto kType = MessageType::ranks_joined;
  std::vector<std::uint32_t> ranks;
  template <class V>
  void visit(V& v) {
    v(ranks);
  }
};

// A rank's line to its agent ended.
struct RankLeft {
  static constexpr auto kType = MessageType::rank_left;
  std::uint32_t rank = 0;
  bool clean = false;    // it said so (hvd::shutdown)
  bool returns = false;  // as in WorkerLeave
  template <class V>
  void visit(V& v) {
    v(rank);
    v(clean);
    v(returns);
  }
};

// Down the ladder with every rank of the host; KILL to what is left at its end.
struct KillRanks {
  static constexpr auto kType = MessageType::kill_ranks;
  KillSteps steps;
  template <class V>
  void visit(V& v) {
    v(steps);
  }
};

// A signal that the user sent to hvdrun, for every rank's process group.
struct SignalRanks {
  static constexpr auto kType = MessageType::signal_ranks;
  std::uint32_t signal = 0;
  template <class V>
  void visit(V& v) {
    v(signal);
  }
};

// A collective of this rank failed: evidence, should the rank fail next.
struct RankTrouble {
  static constexpr auto kType = MessageType::rank_trouble;
  std::uint32_t rank = 0;
  Errc code{};
  std::string text;
  // As in CollectiveFailed.
  std::uint32_t process_set = 0;
  bool gives_up = false;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(code);
    v(text);
    v(process_set);
    v(gives_up);
  }
};

// All ranks are accounted for: clean up and go.
struct EndJob {
  static constexpr auto kType = MessageType::end_job;
  template <class V>
  void visit(V&) {}
};

struct JobProgress {
  static constexpr auto kType = MessageType::job_progress;
  std::uint32_t size = 0;
  std::uint32_t hosts_ready = 0;
  std::uint32_t started = 0;
  std::uint32_t joined = 0;
  template <class V>
  void visit(V& v) {
    v(size);
    v(hosts_ready);
    v(started);
    v(joined);
  }
};

enum class EndCause : std::uint8_t {
  success = 1,
  rank_failed = 2,    // rank, kind, value
  host_lost = 3,      // host, text
  aborted = 4,        // by the driver; value: signal
  start_timeout = 5,  // text names the hosts
  early_exit = 6,     // rank exited with 0 while others needed it; text: what failed for lack of it
  never_joined = 7,   // text: "rank 2 never reached hvd::init"
  timeout = 8,        // --timeout
  not_startable = 9,  // text: a line for each fault of a program, with its hosts
  stalled = 10,       // text: "tensor 'grad' had waited 60 s for rank 2 on gpu1"
  too_few_ranks = 11,    // of an elastic job; text: how many there are, and who is waited for
  too_many_resets = 12,  // of an elastic job; text: the limit, and what it was last reset for
};

// Ranks that ended alike after the first cause.
struct Victims {
  ExitKind kind{};
  std::uint32_t value = 0;
  std::vector<std::uint32_t> ranks;
  template <class V>
  void visit(V& v) {
    v(kind);
    v(value);
    v(ranks);
  }
};

// The verdict. exit_code is what hvdrun returns.
struct JobEnded {
  static constexpr auto kType = MessageType::job_ended;
  EndCause cause{};
  std::uint32_t exit_code = 0;
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  ExitKind kind = ExitKind::exited;
  std::uint32_t value = 0;
  bool out_of_memory = false;
  std::uint64_t after_ms = 0;  // since the launch
  std::string host;
  std::string text;
  std::vector<Victims> victims;
  bool by_slot =
      false;  // `rank` and those of the victims are slots, which had other ranks meanwhile
  template <class V>
  void visit(V& v) {
    v(cause);
    v(exit_code);
    v(rank);
    v(pid);
    v(kind);
    v(value);
    v(out_of_memory);
    v(after_ms);
    v(host);
    v(text);
    v(victims);
    v(by_slot);
  }
};

struct AbortJob {
  static constexpr auto kType = MessageType::abort_job;
  std::uint32_t signal = 0;
  template <class V>
  void visit(V& v) {
    v(signal);
  }
};

// The driver could not open a host, or lost the guard on it.
struct HostFailed {
  static constexpr auto kType = MessageType::host_failed;
  std::uint32_t host_index = 0;
  std::string text;
  std::uint32_t opening = 0;  // which one has come to an end (ReopenHost)
  template <class V>
  void visit(V& v) {
    v(host_index);
    v(text);
    v(opening);
  }
};

}  // namespace hvdrun
