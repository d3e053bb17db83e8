// The environment contract: what a worker finds in its environment (docs/environment.md).
// HVD_* is the truth; besides it what horovodrun and torchrun set and Open MPI's rank variables, so
// that programs written for those launchers find their rank. Sans-I/O.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/environment.h"
#include "common/host/rank_place.h"

namespace hvdrun {

// Removes every variable that holds a rank, size or wire-up of a job: of this launcher, torchrun,
// Open MPI, PMIx, PMI, MVAPICH, Horovod or a Slurm step. A launcher that itself runs inside such
// a job would else hand its own rank to every worker. So are all those that a launch of hvdrun has
// set and nobody has changed since (common/base/launch_record.h).
void drop_stale_variables(Environment& env);

// Which variables of other launchers a worker finds besides HVD_* (--env-compat).
struct EnvCompat {
  bool horovod = true;
  bool torch = true;
  bool mpi_ids = true;
};

// Where members of Horovod find their store: no other machine reaches it.
inline constexpr const char* kHorovodAddress = "127.0.0.1";

// What a program of Horovod is told. To it two names of this machine are two hosts.
struct HorovodPlace {
  // Of the store that answers Horovod's dialect, at kHorovodAddress. 0: there is none, and no
  // HOROVOD_* is set, because a Horovod program without its store would hang.
  std::uint16_t port = 0;
  std::string host_name;  // of no other host of the job
  RankPlace place;
};

struct WorkerPlace : RankPlace {
  std::string job_id;
  std::string agent;      // HVD_AGENT: where libhvd finds the agent
  std::string host_name;  // as in -H
  std::uint32_t epoch = 0;
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 0;
  std::uint32_t usable_cores = 0;  // of the host
  std::string master_addr;
  std::uint16_t master_port = 0;
  EnvCompat compat;
  HorovodPlace horovod;
  std::string host_address;  // that the other hosts use; empty: there are none
  std::string interface;     // the network interface that has it; empty: not known
};

// `base`, the user's environment after drop_stale_variables(), with the contract on top, and the
// record of what was set, to which `base` may have a beginning.
// MASTER_ADDR, MASTER_PORT and the interfaces are the user's who has given them to this job (-x,
// --env-file). OMP_NUM_THREADS is set to usable cores / local size (at least 1) unless the user has
// set it: with the OpenMP default every rank starts a thread per core, and ranks that spin for each
// other's cores cost a factor of seven.
Environment worker_environment(Environment base, const WorkerPlace& place);

}  // namespace hvdrun
