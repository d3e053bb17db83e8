// Runs the ranks of several hosts as threads: a mapping for each host, TCP on loopback between
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "worker/hvd/comm/hosts/hosts_communicator.h"

namespace hvdrun::test {

// Ranks of each host.
using Counts = std::vector<std::size_t>;

class HostThreads {
 public:
  explicit HostThreads(const Counts& counts, bool encrypt = false) : layout_(counts) {
    std::vector<std::string> endpoints;
    std::vector<std::unique_ptr<LinkSet>> links;
    for (std::size_t rank = 0; rank < layout_.size(); ++rank) {
      links.push_back(
          std::make_unique<LinkSet>(LinkSet::Options{{1, 0, static_cast<std::uint32_t>(rank)},
                                                     std::string(32, 'k'),
                                                     "127.0.0.1",
                                                     {},
                                                     encrypt}));
      endpoints.push_back(links.back()->endpoint());
    }
    std::vector<HostsContext> options;
    for (std::size_t host = 0; host < counts.size(); ++host) {
      const auto mapping =
          std::make_shared<const Mapping>(Mapping::anonymous(shm_segment_bytes(counts[host])));
      for (std::size_t local = 0; local < counts[host]; ++local) {
        const std::size_t rank = layout_.first(host) + local;
        memories_.push_back(std::make_shared<SharedMemory>(segments_, rank, 0));
        buffers_.push_back(std::make_unique<SharedBuffers>(*memories_.back()));
        ShmOptions shm;
        shm.rank = static_cast<int>(local);
        shm.size = static_cast<int>(counts[host]);
        for (std::size_t other = 0; other < counts[host]; ++other)
          shm.ranks.push_back(layout_.first(host) + other);
        shm.memory = memories_.back();
        links[rank]->set_peers(layout_, endpoints);
        options.push_back(
            {layout_, rank,
             counts[host] == 1 ? make_self_communicator() : make_shm_communicator(mapping, shm),
             std::move(links[rank])});
      }
    }
    communicators_.resize(layout_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < layout_.size(); ++rank)
      threads.emplace_back([&, rank] {
        communicators_[rank] = make_hosts_communicator(std::move(options[rank]),
                                                       {.timeout = std::chrono::seconds(60)});
      });
    for (std::thread& thread : threads) thread.join();
  }
  Communicator& operator[](std::size_t rank) { return *communicators_[rank]; }
  std::unique_ptr<Communicator> take(std::size_t rank) { return std::move(communicators_[rank]); }
  void leave(std::size_t rank) { communicators_[rank].reset(); }
  const HostLayout& layout() const { return layout_; }
  BufferSource& buffers(int rank) { return *buffers_[static_cast<std::size_t>(rank)]; }

  RankErrors run(const std::function<void(Communicator&)>& body) {
    return run_ranks(communicators_, body);
  }

 private:
  HostLayout layout_;
  std::shared_ptr<ThreadSegments> segments_ = std::make_shared<ThreadSegments>();
  std::vector<std::shared_ptr<SharedMemory>> memories_;
  std::vector<std::unique_ptr<SharedBuffers>> buffers_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace hvdrun::test
