#include "common/host/rank_environment.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "common/base/launch_record.h"

namespace hvdrun {
namespace {

constexpr auto kStalePrefixes = std::to_array<std::string_view>({
    "OMPI_",
    "PMIX_",
    "PMI_",
    "MV2_COMM_WORLD_",
    "TORCHELASTIC_",
});

constexpr auto kStaleNames = std::to_array<std::string_view>({
    "HVD_JOB_ID",
    "HVD_EPOCH",
    "HVD_AGENT",
    "HVD_HOSTNAME",
    "HVD_HOST_ADDRESS",
    "HVD_RANK",
    "HVD_SIZE",
    "HVD_LOCAL_RANK",
    "HVD_LOCAL_SIZE",
    "HVD_CROSS_RANK",
    "HVD_CROSS_SIZE",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "CROSS_RANK",
    "CROSS_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_CONTROL_FD",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_HOSTNAME",
    "HOROVOD_CONTROLLER",
    "HOROVOD_CPU_OPERATIONS",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "HOROVOD_ELASTIC",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEPID",
    "SLURM_STEP_ID",
    "SLURM_GTIDS",
    "_HOROVOD_SECRET_KEY",
});

bool is_stale(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  if (name.starts_with("OMPI_MCA_"))  // the user's own Open MPI settings, but not its wire-up
    return name.starts_with("OMPI_MCA_ess_") || name.starts_with("OMPI_MCA_orte_") ||
           name.starts_with("OMPI_MCA_pmix");
  if (std::find(kStaleNames.begin(), kStaleNames.end(), name) != kStaleNames.end()) return true;
  return std::any_of(kStalePrefixes.begin(), kStalePrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

void drop_stale_variables(Environment& env) {
  drop_recorded_variables(env);
  env.erase(std::remove_if(env.begin(), env.end(), [](const auto& e) { return is_stale(e); }),
            env.end());
}

Environment worker_environment(Environment base, const WorkerPlace& place) {
  const char* const of_driver = find_variable(base, kLaunchRecord);
  std::string record = of_driver == nullptr ? "" : of_driver;
  const auto set_text = [&](std::string_view name, std::string_view value) {
    set_variable(base, name, value);
    add_to_record(record, name, value);
  };
  const auto set = [&](std::string_view name, const auto& value) {
    if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>) {
      set_text(name, std::to_string(value));
    } else {
      set_text(name, value);
    }
  };
  const auto set_unless_given = [&](std::string_view name, const auto& value) {
    if (find_variable(base, name) == nullptr) set(name, value);
  };
  set("HVD_JOB_ID", place.job_id);
  set("HVD_EPOCH", place.epoch);
  set("HVD_AGENT", place.agent);
  set("HVD_HOSTNAME", place.host_name);
  set("HVD_RANK", place.rank);
  set("HVD_SIZE", place.size);
  set("HVD_LOCAL_RANK", place.local_rank);
  set("HVD_LOCAL_SIZE", place.local_size);
  set("HVD_CROSS_RANK", place.cross_rank);
  set("HVD_CROSS_SIZE", place.cross_size);
  // libhvd would bind to it.
  erase_variable(base, "HVD_HOST_ADDRESS");
  if (!place.host_address.empty()) set("HVD_HOST_ADDRESS", place.host_address);
  // Which network to use is the user's choice (--network-interfaces); else the one that was proved.
  const auto set_interface = [&](std::string_view name, const std::string& value) {
    if (!place.interface.empty()) set_unless_given(name, value);
  };
  const bool horovod = place.compat.horovod && place.horovod.port != 0;
  const bool several = !place.host_address.empty();
  if (several && place.compat.torch) set_interface("GLOO_SOCKET_IFNAME", place.interface);
  // Without the sign NCCL takes it for the beginning of a name: eth1 for eth10 too.
  if (horovod || (several && place.compat.torch))
    set_interface("NCCL_SOCKET_IFNAME", "=" + place.interface);

  if (place.compat.torch) {
    set("RANK", place.rank);
    set("WORLD_SIZE", place.size);
    set("LOCAL_RANK", place.local_rank);
    set("LOCAL_WORLD_SIZE", place.local_size);
    set("GROUP_RANK", place.node_rank);
    set("GROUP_WORLD_SIZE", place.node_count);
    set("NODE_RANK", place.node_rank);
    set("ROLE_NAME", "default");
    set("ROLE_RANK", place.rank);
    set("ROLE_WORLD_SIZE", place.size);
    set_unless_given("MASTER_ADDR", place.master_addr);
    set_unless_given("MASTER_PORT", place.master_port);
    // Without TORCHELASTIC_USE_AGENT_STORE rank 0 serves the store itself, which every program can.
    set("TORCHELASTIC_RESTART_COUNT", 0);
    set("TORCHELASTIC_MAX_RESTARTS", 0);
    set("TORCHELASTIC_RUN_ID", place.job_id);
  }

  if (place.compat.mpi_ids) {
    set("OMPI_COMM_WORLD_RANK", place.rank);
    set("OMPI_COMM_WORLD_SIZE", place.size);
    set("OMPI_COMM_WORLD_LOCAL_RANK", place.local_rank);
    set("OMPI_COMM_WORLD_LOCAL_SIZE", place.local_size);
    set("OMPI_COMM_WORLD_NODE_RANK", place.local_rank);
    set("OMPI_UNIVERSE_SIZE", place.size);
    set("MPI_LOCALRANKID", place.local_rank);
    set("MPI_LOCALNRANKS", place.local_size);
  }

  if (horovod) {
    set("HOROVOD_RANK", place.rank);
    set("HOROVOD_SIZE", place.size);
    set("HOROVOD_LOCAL_RANK", place.horovod.place.local_rank);
    set("HOROVOD_LOCAL_SIZE", place.horovod.place.local_size);
    set("HOROVOD_CROSS_RANK", place.horovod.place.cross_rank);
    set("HOROVOD_CROSS_SIZE", place.horovod.place.cross_size);
    set("HOROVOD_HOSTNAME", place.horovod.host_name);
    set("HOROVOD_CONTROLLER", "gloo");
    set("HOROVOD_CPU_OPERATIONS", "gloo");
    set("HOROVOD_GLOO_RENDEZVOUS_ADDR", std::string(kHorovodAddress));
    set("HOROVOD_GLOO_RENDEZVOUS_PORT", place.horovod.port);
    set_interface("HOROVOD_GLOO_IFACE", place.interface);
  }

  set_unless_given("OMP_NUM_THREADS",
                   std::max(1U, place.usable_cores / std::max(1U, place.local_size)));
  set_variable(base, kLaunchRecord, record);
  return base;
}

}  // namespace hvdrun
