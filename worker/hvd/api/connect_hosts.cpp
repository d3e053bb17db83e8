#include "worker/hvd/api/connect_hosts.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/hvd/api/address_book.h"
#include "worker/hvd/comm/hosts/hosts_communicator.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;

// "[v6%interface]:port", filled up with zeros: every rank's has the same size.
using EndpointText = std::array<char, 80>;

CallOptions until(AgentConnection::Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - AgentConnection::Deadline::clock::now());
  return {.timeout = std::max(left, std::chrono::milliseconds(0))};
}

// The hosts' counts and the ranks' endpoints.
struct Places {
  std::vector<std::size_t> counts;
  std::vector<EndpointText> endpoints;
};

class AgentStore final : public BookStore {
 public:
  AgentStore(AgentConnection& agent, AgentConnection::Deadline deadline)
      : agent_(agent), deadline_(deadline) {}
  void put(const std::string& key, std::string value) override {
    agent_.put(key, std::move(value), deadline_);
  }
  std::optional<std::string> get(const std::string& key, bool patiently) override {
    return agent_.get(key, patiently ? deadline_ : AgentConnection::Deadline::clock::now());
  }

 private:
  AgentConnection& agent_;
  const AgentConnection::Deadline deadline_;
};

class Finder {
 public:
  Finder(AgentConnection& agent, HostCommunicator& local, std::uint32_t generation,
         AgentConnection::Deadline deadline)
      : agent_(agent), local_(local), generation_(generation), deadline_(deadline) {}

  // Where everybody is, once everybody has said so.
  Places find(const std::string& endpoint) {
    const WorkerTopology& place = agent_.topology();
    EndpointText own{};
    if (endpoint.size() >= own.size())
      throw hvd::Error(ErrorCode::internal, "the address " + endpoint + " is too long");
    endpoint.copy(own.data(), own.size() - 1);
    std::vector<EndpointText> here(place.local_size);
    const std::vector<std::size_t> counts(place.local_size, own.size());
    local_.allgather(own.data(), here.data(), counts.data(), hvd::DataType::uint8,
                     until(deadline_));
    Places places;
    if (place.local_rank == 0) {
      try {
        places = ask_hosts(here);
      } catch (const hvd::Error& error) {
        local_.give_up(error);
        throw;
      }
    }
    tell(places);
    return places;
  }

 private:
  // Among the first ranks of the hosts the cross rank numbers the hosts.
  Places ask_hosts(const std::vector<EndpointText>& here) {
    const WorkerTopology& place = agent_.topology();
    std::vector<std::string> own;
    own.reserve(here.size());
    for (const EndpointText& text : here) own.emplace_back(text.data());
    AgentStore store(agent_, deadline_);
    const AddressBook book =
        exchange_addresses(store, generation_, place.cross_rank, place.cross_size, own);
    Places places;
    for (const auto& host : book) {
      if (places.counts.size() == place.cross_rank && places.endpoints.size() != place.rank)
        ranks_are_mixed();
      places.counts.push_back(host.size());
      for (const std::string& address : host) {
        EndpointText& text = places.endpoints.emplace_back();
        address.copy(text.data(), text.size() - 1);
      }
    }
    if (places.endpoints.size() != place.size) ranks_are_mixed();
    return places;
  }

  [[noreturn]] static void ranks_are_mixed() {
    throw hvd::Error(ErrorCode::internal, "the ranks of a host are not numbered in a row");
  }

  void tell(Places& places) {
    std::uint64_t hosts = places.counts.size();
    places.endpoints.resize(agent_.topology().size);
    share(&hosts, sizeof hosts);
    places.counts.resize(hosts);
    share(places.counts.data(), places.counts.size() * sizeof(std::size_t));
    share(places.endpoints.data(), places.endpoints.size() * sizeof(EndpointText));
  }
  void share(void* data, std::size_t bytes) {
    local_.broadcast(data, bytes, hvd::DataType::uint8, 0, until(deadline_));
  }

  AgentConnection& agent_;
  HostCommunicator& local_;
  const std::uint32_t generation_;
  const AgentConnection::Deadline deadline_;
};

}  // namespace

std::unique_ptr<Communicator> connect_hosts(
    AgentConnection& agent, std::unique_ptr<HostCommunicator> local, std::uint32_t generation,
    AgentConnection::Deadline deadline, std::vector<std::size_t>& host_counts,
    std::shared_ptr<AwaitedLinks> awaited, std::shared_ptr<const AbortSignal> abort) {
  const WorkerTopology& place = agent.topology();
  if (place.address.empty())
    throw hvd::Error(ErrorCode::unavailable,
                     "the launcher does not know an address of this host for the other hosts");
  auto links = std::make_unique<LinkSet>(LinkSet::Options{{agent.epoch(), generation, place.rank},
                                                          place.data_key,
                                                          place.address,
                                                          {place.first_port, place.last_port},
                                                          place.encrypt_data,
                                                          {},
                                                          std::move(awaited),
                                                          std::move(abort)});
  const Places places = Finder(agent, *local, generation, deadline).find(links->endpoint());
  host_counts = places.counts;
  HostLayout layout(places.counts);
  std::vector<std::string> endpoints;
  for (const EndpointText& text : places.endpoints) endpoints.emplace_back(text.data());
  links->set_peers(layout, std::move(endpoints));
  return make_hosts_communicator(
      {std::move(layout), place.rank, std::move(local), std::move(links)}, until(deadline));
}

}  // namespace hvdrun
