#include "coordinator/launch_messages.h"

#include <string>

namespace hvdrun {

std::vector<Launch> make_launches(const JobSpec& spec, const Membership& membership,
                                  const std::vector<std::string>& addresses,
                                  std::uint16_t master_port) {
  const auto& used = membership.hosts_used();
  // A name in -H may be one that only ssh knows, so it is not the name that ranks are given.
  const std::string master_addr = used.size() == 1 ? "127.0.0.1" : addresses.front();
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
    message.allow_mpi = spec.allow_mpi;
    message.horovod_port = spec.horovod_port;
    if (spec.horovod_port != 0) message.horovod_addr = spec.horovod_addr;
    if (used.size() > 1) message.host_address = addresses[node];
  }
  return launches;
}

}  // namespace hvdrun
