// The environment contract: what a worker finds in its environment (docs/environment.md), one table
// with a row a variable. HVD_* is the truth; besides it what horovodrun and torchrun set and Open
// MPI's rank variables, so that programs written for those launchers find their rank. The table
// says too what is dropped of an outer job: a launcher that itself runs inside such a job would
// else hand its own rank to every worker. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/environment.h"
#include "common/host/rank_place.h"

namespace hvdrun {

// Other launchers' variables that a worker finds besides HVD_* (--env-compat).
struct EnvCompat {
  bool horovod = true;
  bool torch = true;
  bool mpi_ids = true;
};

// Where members of Horovod find their store: no other machine reaches it.
inline constexpr const char* kHorovodAddress = "127.0.0.1";

// The place that a program of Horovod is told. To it two names of this machine are two hosts.
struct HorovodPlace {
  // The port of the store that answers Horovod's dialect, at kHorovodAddress. 0: there is none, and
  // no HOROVOD_* is set, because a Horovod program without its store would hang.
  std::uint16_t port = 0;
  std::string host_name;  // of no other host of the job
  RankPlace place;        // of the epoch that the process begins in
  bool elastic = false;   // other epochs may follow, for which it is to ask
};

struct WorkerPlace : RankPlace {
  std::string job_id;
  std::string agent;        // HVD_AGENT: where libhvd finds the agent
  std::string host_name;    // as in -H
  std::uint32_t epoch = 0;  // at the start of the process
  std::uint32_t start = 0;  // of its slot's processes, the number of this one
  bool is_late = false;     // the job runs already
  // As the plan has set HVD_RESTART_COUNT and HVD_MAX_RESTARTS: how often the whole job has been
  // started again, and how often it may be. worker_environment() finds them there.
  std::uint32_t restarts = 0;
  std::uint32_t max_restarts = 0;
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 0;
  std::uint32_t usable_cores = 0;  // of the host
  std::string master_addr;
  std::uint16_t master_port = 0;
  EnvCompat compat;
  HorovodPlace horovod;
  std::string host_address;  // that the other hosts use; empty: there are none
  std::string interface;     // the network interface that has it; empty: not known
  std::string sync_folder;   // whose files hvdrun brings to its own machine; empty: none
};

struct RankVariable {
  enum class Family : std::uint8_t { hvd, network, torch, mpi_ids, horovod, openmp, other };
  // The rule says who has the last word. "Inherited" is what hvdrun itself was started with,
  // "given" what the user says for this job (-x, --env-file).
  enum class Rule : std::uint8_t {
    ours,            // an inherited one is dropped, a given one overwritten
    ours_or_absent,  // likewise, and a given one goes where there is no value
    unless_given,    // an inherited one is dropped, a given one stays
    users,           // both stay; what an outer hvdrun has set is dropped (launch_record.h)
    of_plan,         // an inherited one is dropped; what the plan has set for all ranks stays
    dropped,         // an inherited one is dropped; nobody sets it
    kept,            // stays: an exception from a row that drops more
  };
  // When a value is known that the user has not given.
  enum class Known : std::uint8_t { always, at_start, alone };  // alone: before it on one host only

  using Value = std::optional<std::string> (*)(const WorkerPlace& place);

  std::string_view name;  // with a * at its end: all names that begin so; the longest row counts
  Family family;
  Rule rule;
  Value value = nullptr;  // none: it is not set here
  Known known = Known::always;
};

// In the order in which a worker finds them.
std::span<const RankVariable> rank_variables();
// The row of a name; none: it is nobody's but the user's.
const RankVariable* find_rank_variable(std::string_view name);

// Removes every inherited variable that holds a rank, size or wire-up of a job, of whatever
// launcher. So are those that a launch of hvdrun has set and nobody has changed since.
void drop_stale_variables(Environment& env);

// The environment that a rank finds: `job`, the user's environment after drop_stale_variables() and
// what is given; on top `of_host`, what the plan says for this host; where they lack a GPU list,
// Slurm's for this host, of which `here` is the agent's environment; then the table's rows; and the
// record of what was set, to which `job` may have a beginning.
//
// OMP_NUM_THREADS is usable cores / local size: with the OpenMP default every rank starts a thread
// per core, and ranks that spin for each other's cores cost a factor of seven.
Environment worker_environment(Environment job, const WorkerPlace& at,
                               const Environment& of_host = {}, const Environment& here = {});

}  // namespace hvdrun
