#include "coordinator/launch_messages.h"

#include <string>

namespace hvdrun {

std::vector<Launch> make_launches(const JobSpec& spec, const Membership& membership,
                                  std::uint16_t master_port) {
  const auto& used = membership.hosts_used();
  // One machine: rank 0 is reached over loopback. Else by the name that the user gave its host.
  const std::string& first =
      spec.master_addr.empty() ? membership.hosts()[used.front()].name : spec.master_addr;
  const std::string master_addr = used.size() == 1 ? "127.0.0.1" : first;
  std::vector<Launch> launches(used.size());
  std::uint32_t node = 0;
  for (const RankRecord& record : membership.ranks()) {
    if (used[node] != record.place.host) ++node;
    launches[node].slots.push_back({record.place.rank, record.place.local_rank,
                                    record.place.cross_rank, record.place.cross_size});
  }
  for (node = 0; node < used.size(); ++node) {
    Launch& message = launches[node];
    message.size = membership.size();
    message.host_count = static_cast<std::uint32_t>(used.size());
    message.node_rank = node;
    message.argv = spec.argv;
    message.programs = spec.programs;
    message.env = spec.env;
    message.cwd = spec.cwd;
    message.master_addr = master_addr;
    message.master_port = master_port;
    message.env_torch = spec.env_compat.torch;
    message.env_mpi_ids = spec.env_compat.mpi_ids;
    message.horovod_port = spec.horovod_port;
    if (spec.horovod_port != 0) {
      // All ranks are on this machine.
      message.horovod_addr = "127.0.0.1";
      message.horovod_iface = "lo";
    }
  }
  return launches;
}

}  // namespace hvdrun
