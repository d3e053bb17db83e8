#include "worker/hvd/api/connect_set.h"

#include <utility>

#include "worker/hvd/comm/hosts/hosts_communicator.h"
#include "worker/hvd/comm/self_communicator.h"
#include "worker/hvd/comm/shm/shm_communicator.h"

namespace hvdrun {

SetConnector::SetConnector(AgentConnection& agent, std::vector<std::size_t> host_counts,
                           std::uint32_t generation, const CoreShare& share,
                           std::chrono::milliseconds timeout)
    : agent_(agent),
      layout_(std::move(host_counts)),
      generation_(generation),
      share_(share),
      timeout_(timeout) {}

std::vector<SetConnector::Host> SetConnector::hosts_of(const RankSet& set) const {
  std::vector<Host> hosts;
  for (const int rank : set.ranks) {
    const auto number = static_cast<std::size_t>(rank);
    const std::size_t host = layout_.host_of(number);
    if (hosts.empty() || hosts.back().index != host) hosts.push_back({host, {}});
    hosts.back().ranks.push_back(number);
  }
  return hosts;
}

std::string SetConnector::listen(const RankSet& set, std::uint32_t number) {
  links_.reset();
  if (hosts_of(set).size() == 1) return {};
  const WorkerTopology& place = agent_.topology();
  LinkSet::Options options{
      {agent_.epoch(), instance_of(number), static_cast<std::uint32_t>(set.place)},
      place.data_key,
      place.address,
      {place.first_port, place.last_port},
      place.encrypt_data};
  options.names.assign(set.ranks.begin(), set.ranks.end());
  links_ = std::make_unique<LinkSet>(std::move(options));
  return links_->endpoint();
}

std::unique_ptr<Communicator> SetConnector::connect(const RankSet& set, std::uint32_t number,
                                                    const std::vector<std::string>& addresses) {
  const std::vector<Host> hosts = hosts_of(set);
  const std::size_t here = layout_.host_of(agent_.topology().rank);
  std::unique_ptr<HostCommunicator> local;
  std::vector<std::size_t> counts;
  for (const Host& host : hosts) {
    counts.push_back(host.ranks.size());
    if (host.index == here) local = connect_here(number, host.ranks);
  }
  if (hosts.size() == 1) return local;
  HostLayout layout(counts);
  links_->set_peers(layout, addresses);
  return make_hosts_communicator(
      {std::move(layout), static_cast<std::size_t>(set.place), std::move(local), std::move(links_)},
      {.timeout = timeout_});
}

std::unique_ptr<HostCommunicator> SetConnector::connect_here(
    std::uint32_t number, const std::vector<std::size_t>& ranks) {
  if (ranks.size() == 1) return make_self_communicator();
  ShmOptions options;
  options.size = static_cast<int>(ranks.size());
  options.may_spin = share_.fits(0);
  options.ranks = ranks;
  while (ranks[static_cast<std::size_t>(options.rank)] != agent_.topology().rank) ++options.rank;
  const std::size_t bytes = shm_segment_bytes(ranks.size());
  const UniqueFd segment = agent_.segment(segment_of(ranks.front(), number), bytes,
                                          std::chrono::steady_clock::now() + timeout_);
  return make_shm_communicator(
      std::make_shared<const Mapping>(Mapping::of_file(segment.get(), bytes)), options);
}

std::string SetConnector::segment_of(std::size_t first, std::uint32_t number) const {
  return "mem/" + std::to_string(first) + "/set/" + std::to_string(agent_.epoch()) + "/" +
         std::to_string(generation_) + "/" + std::to_string(number);
}

// Everybody who needs the segment has it.
void SetConnector::connected(const RankSet& set, std::uint32_t number) {
  links_.reset();
  for (const Host& host : hosts_of(set))
    if (host.ranks.size() > 1 && host.ranks.front() == agent_.topology().rank)
      agent_.drop_segment(segment_of(host.ranks.front(), number));
}

}  // namespace hvdrun
