// The whole job, checked, as the driver hands it to the coordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/host/rank_environment.h"
#include "common/host/topology.h"
#include "common/wire/messages.h"

namespace hvdrun {

struct JobSpec {
  std::string job_id;
  RankTable ranks;
  std::vector<std::string> argv;
  std::vector<ProgramPart> programs;  // of later ranks, in place of argv
  Environment env;
  std::vector<Environment> host_env;  // for each host, on top of env; empty: none has any
  EnvCompat env_compat;
  // The table as programs of Horovod see it: the same ranks in the same order on other hosts;
  // empty: as `ranks`.
  RankTable horovod_ranks;
  // The port of Horovod's store, where all ranks are on this machine and one agent's; 0: each agent
  // opens one, if env_compat has Horovod.
  std::uint16_t horovod_port = 0;
  std::string cwd;
  std::string plain_cwd;   // the same without links, where it has some
  bool allow_mpi = false;  // programs that wait for MPI are started all the same
  // For each host: another machine, which looks at its programs first, and can be opened again;
  // empty: none is.
  std::vector<bool> elsewhere;
  std::chrono::milliseconds start_timeout{};
  KillSteps ladder;
  std::chrono::milliseconds lease{};
  std::chrono::milliseconds timeout{};  // of the whole job; 0: none
  // The time for which some ranks may be in hvd::init and others not: the ranks' own time, which is
  // over before, and this. 0: no limit.
  static constexpr std::chrono::milliseconds kAfterInitTimeout{5'000};
  std::chrono::milliseconds init_timeout{};
  std::chrono::milliseconds stall_warning{};   // of operations that wait for ranks; 0: never
  std::chrono::milliseconds stall_shutdown{};  // when that, or an init, ends the job; 0: never
  // The time after which an elastic job's slot that was left out may come back, at first and at
  // most.
  std::optional<std::pair<std::chrono::seconds, std::chrono::seconds>> cooldown;
  // Elastic: the job goes on with so many ranks at least, once its program says that it can; 0:
  // not.
  std::uint32_t min_np = 0;
  std::chrono::milliseconds elastic_timeout{};  // for which it waits for so many
  // Hosts come and go (HostsListed), and the job has so many ranks at most; 0: they do not.
  std::uint32_t max_np = 0;
  std::optional<std::uint32_t> reset_limit;  // so often its ranks may meet anew
  bool events = false;                       // tell the driver every change of a rank's state

  const std::vector<HostSlots>& hosts() const { return ranks.hosts(); }
  std::uint32_t np() const { return ranks.size(); }
  const RankTable& seen_by_horovod() const {
    return horovod_ranks.size() == 0 ? ranks : horovod_ranks;
  }
};

}  // namespace hvdrun
