// Engines of the ranks of a job, as threads of one process, on one host or on several.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/worker/hvd/comm/hosts/host_threads.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/reference.h"
#include "worker/hvd/engine/engine.h"

namespace hvdrun::test {

// The case as an operation on these buffers.
inline Operation operation_of(const Case& c, std::size_t rank, std::size_t ranks, char* input,
                              char* output) {
  Operation operation;
  operation.kind = c.kind;
  operation.input = input;
  operation.output = output;
  operation.count = c.count;
  operation.reduction = c.reduction;
  operation.root = c.root;
  if (c.kind == OpKind::broadcast) operation.input = output;
  if (!c.uneven || c.kind == OpKind::allreduce || c.kind == OpKind::broadcast) return operation;
  if (c.kind == OpKind::alltoall) {
    for (std::size_t other = 0; other < ranks; ++other) {
      operation.counts.push_back(count_of(c, rank, other));
      operation.receive_counts.push_back(count_of(c, other, rank));
    }
  } else {
    operation.counts = counts_of(c, ranks);
  }
  return operation;
}

class EngineRanks {
 public:
  // Ranks of each host. `change` may set options of a rank.
  explicit EngineRanks(const std::vector<std::size_t>& hosts,
                       const std::function<void(EngineOptions&, int)>& change = {}) {
    if (hosts.size() == 1) {
      one_host_ = std::make_unique<RankThreads>(static_cast<int>(hosts[0]));
      for (int rank = 0; rank < static_cast<int>(hosts[0]); ++rank)
        add(one_host_->take(rank), rank, change);
      return;
    }
    hosts_ = std::make_unique<HostThreads>(hosts);
    for (std::size_t rank = 0; rank < hosts_->layout().size(); ++rank)
      add(hosts_->take(rank), static_cast<int>(rank), change);
  }

  std::size_t size() const { return engines_.size(); }
  Engine& operator[](std::size_t rank) { return *engines_[rank]; }

  // Each rank in a thread of its own. A wrong result ends the others' waiting.
  RankErrors run(const std::function<void(Engine&, std::size_t rank)>& body) {
    RankErrors errors(size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] {
        errors[rank] = error_of([&] { body(*engines_[rank], rank); });
        if (errors[rank] && !errors[rank]->code)
          for (const auto& engine : engines_)
            engine->communicator().abort({hvd::ErrorCode::internal, errors[rank]->text});
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

 private:
  void add(std::unique_ptr<Communicator> communicator, int rank,
           const std::function<void(EngineOptions&, int)>& change) {
    EngineOptions options;
    options.timeout = std::chrono::seconds(60);
    if (change) change(options, rank);
    engines_.push_back(std::make_unique<Engine>(std::move(communicator), std::move(options)));
  }

  std::unique_ptr<RankThreads> one_host_;
  std::unique_ptr<HostThreads> hosts_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace hvdrun::test
