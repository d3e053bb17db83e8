#include "coordinator/launch_messages.h"

#include "coordinator/horovod/horovod_store.h"

namespace hvdrun {

LaunchBody launch_body(const JobSpec& spec, const std::string& master_addr,
                       std::uint16_t master_port) {
  LaunchBody message;
  message.argv = spec.argv;
  message.programs = spec.programs;
  message.env = spec.env;
  message.cwd = spec.cwd;
  message.plain_cwd = spec.plain_cwd;
  message.master_addr = master_addr;
  message.master_port = master_port;
  message.env_torch = spec.env_compat.torch;
  message.env_mpi_ids = spec.env_compat.mpi_ids;
  message.allow_mpi = spec.allow_mpi;
  message.elastic = spec.min_np > 0;
  message.stall_warning_ms = static_cast<std::uint64_t>(spec.stall_warning.count());
  message.stall_shutdown_ms = static_cast<std::uint64_t>(spec.stall_shutdown.count());
  message.env_horovod = spec.env_compat.horovod;
  message.horovod_port = spec.horovod_port;
  return message;
}

std::vector<HorovodSlot> horovod_slots(const JobSpec& spec) {
  if (!spec.env_compat.horovod) return {};
  return members_of(spec.horovod_ranks);
}

void for_each_launch(const RankTable& ranks, const std::vector<std::string>& addresses,
                     bool others_may_come,
                     const std::function<void(std::uint32_t, const LaunchHead&)>& send) {
  const auto& used = ranks.hosts_used();
  LaunchHead message;
  message.size = ranks.size();
  message.host_count = static_cast<std::uint32_t>(used.size());
  for (std::uint32_t node = 0; node < used.size(); ++node) {
    message.node_rank = node;
    if (used.size() > 1 || others_may_come) message.host_address = addresses[node];
    const auto here = ranks.on_host(used[node]);
    message.slots.assign(here.begin(), here.end());
    send(used[node], message);
  }
}

}  // namespace hvdrun
