// Runs the ranks of a job as threads over one mapping. Catch2's assertions belong to the main
// thread: ranks throw, and the errors come back by rank.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/comm/buffers.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/self_communicator.h"
#include "worker/hvd/comm/shm/mapping.h"
#include "worker/hvd/comm/shm/shm_communicator.h"

namespace hvdrun::test {

// The segments of a host whose ranks are threads: all of them see ONE mapping, at one address, so
// that the thread sanitizer sees every access that is not ordered.
class ThreadSegments final : public SegmentSource {
 public:
  std::shared_ptr<const Mapping> open(const std::string& name, std::size_t bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& mapping = all_[name];
    if (!mapping) mapping = std::make_shared<const Mapping>(Mapping::anonymous(bytes));
    if (mapping->size() != bytes) throw std::runtime_error(name + ": another size");
    return mapping;
  }
  void drop(const std::string& name) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(name);
  }
  std::size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Mapping>> all_;
};

// Each rank in a thread of its own.
inline RankErrors run_ranks(const std::vector<std::unique_ptr<Communicator>>& ranks,
                            const std::function<void(Communicator&)>& body) {
  RankErrors errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      errors[rank] = error_of([&] { body(*ranks[rank]); });
      // A wrong result: the others must not wait for this rank.
      if (errors[rank] && !errors[rank]->code) {
        for (const auto& communicator : ranks)
          communicator->abort(hvd::Error(hvd::ErrorCode::internal, errors[rank]->text));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

class RankThreads {
 public:
  explicit RankThreads(int size, bool may_spin = false) {
    auto mapping =
        std::make_shared<const Mapping>(Mapping::anonymous(shm_segment_bytes(unsigned(size))));
    for (int rank = 0; rank < size; ++rank) {
      ShmOptions options;
      options.rank = rank;
      options.size = size;
      options.may_spin = may_spin;
      options.memory = std::make_shared<SharedMemory>(segments_, unsigned(rank), 0);
      memories_.push_back(options.memory);
      buffers_.push_back(std::make_unique<SharedBuffers>(*options.memory));
      communicators_.push_back(make_shm_communicator(mapping, options));
    }
  }
  Communicator& operator[](int rank) { return *communicators_[unsigned(rank)]; }
  int size() const { return int(communicators_.size()); }
  SharedMemory& memory(int rank) { return *memories_[unsigned(rank)]; }
  BufferSource& buffers(int rank) { return *buffers_[unsigned(rank)]; }
  ThreadSegments& segments() { return *segments_; }
  std::unique_ptr<Communicator> take(int rank) { return std::move(communicators_[unsigned(rank)]); }

  RankErrors run(const std::function<void(Communicator&)>& body) {
    return run_ranks(communicators_, body);
  }

 private:
  std::shared_ptr<ThreadSegments> segments_ = std::make_shared<ThreadSegments>();
  std::vector<std::shared_ptr<SharedMemory>> memories_;
  std::vector<std::unique_ptr<SharedBuffers>> buffers_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

// The first error as text, for REQUIRE(first_error(...) == "").
inline std::string first_error(const RankErrors& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    if (errors[rank]) return "rank " + std::to_string(rank) + ": " + errors[rank]->text;
  return {};
}

}  // namespace hvdrun::test
