// The process sets of a job: groups of its ranks, each with a communicator and an engine of its
// own. Set 0 is the whole job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/engine/engine.h"

namespace hvdrun {

struct RankSet {
  int id = 0;
  std::string name;
  std::vector<int> ranks;  // of the job, sorted
  int place = -1;          // this rank's among them; -1: it is none of them
  std::unique_ptr<Engine> engine;

  std::string text() const;        // "process set 'evens' (ranks 0, 2)"
  std::string short_text() const;  // "'evens'", "set 3"
  bool includes(int rank) const;
  // Its place of a rank of the job, which must be in it.
  int place_of(int rank) const;
};

class ProcessSets {
 public:
  // The parts of which a set is made in this job.
  struct Factory {
    // All ranks of the set call it with the same ranks, number and addresses (from listen(), by
    // place). Throws hvd::Error.
    std::function<std::unique_ptr<Communicator>(const RankSet& set, std::uint32_t number,
                                                const std::vector<std::string>& addresses)>
        connect;
    // Where the others reach this rank; empty when no other host is in the set.
    std::function<std::string(const RankSet& set, std::uint32_t number)> listen;
    // All ranks have connected, or failed.
    std::function<void(const RankSet& set, std::uint32_t number)> connected;
    // The engine of a set.
    std::function<std::unique_ptr<Engine>(const RankSet& set, std::unique_ptr<Communicator>)>
        engine;
  };

  ProcessSets(std::unique_ptr<Engine> world, int rank, int size, Factory factory);

  Engine& world() { return *world_->engine; }
  // Throws Error(invalid_argument) for one that there is not.
  std::shared_ptr<RankSet> at(int id) HVD_EXCLUDES(mutex_);
  std::shared_ptr<RankSet> named(const std::string& name) HVD_EXCLUDES(mutex_);

  // The ids of all, the global one first.
  std::vector<int> ids() HVD_EXCLUDES(mutex_);

  // See <hvd/hvd.h>.
  int add(std::vector<int> ranks, const std::string& name) HVD_EXCLUDES(changing_, mutex_);
  void remove(int id) HVD_EXCLUDES(changing_, mutex_);

  // The pending operations of each set's engine, that of the whole job first.
  std::vector<PendingReport> pending() HVD_EXCLUDES(mutex_);

  void peer_gone(int rank, const hvd::Error& reason) HVD_EXCLUDES(mutex_);
  // A rank takes part in nothing of this process set any more; one that is not there is no error.
  void give_up(int id, const hvd::Error& reason) HVD_EXCLUDES(mutex_);
  void abort(const hvd::Error& reason) HVD_EXCLUDES(mutex_);
  void shutdown() noexcept HVD_EXCLUDES(mutex_);

 private:
  void check_new(const std::vector<int>& ranks, const std::string& name) HVD_EXCLUDES(mutex_);
  // Every rank's text, in their order.
  std::vector<std::string> exchange(const std::string& own, const char* call);
  template <class Look>
  void agree(const char* call, const Look& look);

  const std::shared_ptr<RankSet> world_;
  const int rank_;
  const int size_;
  const Factory factory_;
  Mutex changing_;  // held while a set is added: the exchanges of two must not mix
  std::uint32_t made_ HVD_GUARDED_BY(changing_) = 0;  // sets so far, the same on every rank
  Mutex mutex_;
  std::map<int, std::shared_ptr<RankSet>> sets_ HVD_GUARDED_BY(mutex_);
  // Ranks that are gone: sets that are made later must know, too.
  std::map<int, hvd::Error> gone_ HVD_GUARDED_BY(mutex_);
  std::optional<hvd::Error> aborted_ HVD_GUARDED_BY(mutex_);  // all of them; so must these
};

}  // namespace hvdrun
