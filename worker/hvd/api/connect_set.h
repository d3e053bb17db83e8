// Communicators of process sets, out of what the job's ranks know of each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/hvd/api/process_sets.h"
#include "worker/hvd/client/agent_connection.h"
#include "worker/hvd/comm/link/link_set.h"
#include "worker/hvd/engine/core_share.h"

namespace hvdrun {

class SetConnector {
 public:
  // `host_counts`: how many ranks each host has. `generation` as in WorkerJob.
  SetConnector(AgentConnection& agent, std::vector<std::size_t> host_counts,
               std::uint32_t generation, const CoreShare& share, std::chrono::milliseconds timeout);

  // See ProcessSets::Factory. One set at a time.
  std::string listen(const RankSet& set, std::uint32_t number);
  std::unique_ptr<Communicator> connect(const RankSet& set, std::uint32_t number,
                                        const std::vector<std::string>& addresses);
  void connected(const RankSet& set, std::uint32_t number);

 private:
  struct Host {
    std::size_t index;               // in the job
    std::vector<std::size_t> ranks;  // of the set, in the job
  };
  std::vector<Host> hosts_of(const RankSet& set) const;
  std::unique_ptr<HostCommunicator> connect_here(std::uint32_t number,
                                                 const std::vector<std::size_t>& ranks);
  std::string segment_of(std::size_t first, std::uint32_t number) const;
  // Tells the connections of one set from those of another, and of the job.
  std::uint32_t instance_of(std::uint32_t number) const { return generation_ << 16U | number; }

  AgentConnection& agent_;
  const HostLayout layout_;
  const std::uint32_t generation_;
  const CoreShare share_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<LinkSet> links_;  // between listen() and connect()
};

}  // namespace hvdrun
