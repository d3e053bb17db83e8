// Runs collectives on a communicator, one at a time: those that the Scheduler says, in the same
// order on every rank.
//
// A blocking call that finds nothing under way runs on its caller's thread. Everything else goes
// through one thread, started by the first operation that needs it. While nothing is pending no
// thread wakes up and nothing is sent.
//
// One verb is one step:
//   engine.cpp              submit, wait, join, shutdown: the calls, and the reports
//   engine_run.cpp          run: a blocking call, or a batch, to its end; perform: the function of
//                           the communicator or of the GPU that it stands for
//   engine_drive.cpp        drive: one step of the Scheduler after the other
//   engine_negotiation.cpp  negotiate: ranks that mean different things, ranks that have joined
//   engine_failures.cpp     fail: the end of operations when something has gone wrong
//
// Any thread calls the public functions; mutex_ guards their state. One thread at a time is in the
// communicator and drives: a caller of run(), or the engine's own. It has set occupancy_, and what
// is the driver's it touches without the mutex. Others call abort(), peer_gone() and wake() only.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/engine/continuations.h"
#include "worker/hvd/engine/core_share.h"
#include "worker/hvd/engine/entry.h"
#include "worker/hvd/engine/gpu_executor.h"
#include "worker/hvd/engine/handles.h"
#include "worker/hvd/engine/negotiation.h"
#include "worker/hvd/engine/operation.h"
#include "worker/hvd/engine/pending_report.h"
#include "worker/hvd/engine/scheduler.h"
#include "worker/hvd/engine/stall_clock.h"
#include "worker/hvd/engine/submission_log.h"
#include "worker/hvd/engine/timeline.h"

namespace hvdrun {

class BatchTimeline;

struct EngineOptions {
  std::chrono::milliseconds timeout{1'800'000};  // of an operation
  // Told the error of every operation that fails in the communicator, on the thread that ran it,
  // before anybody sees it.
  std::function<void(const hvd::Error&)> on_failed{};
  // Callers of run() spin while they wait when there is a core for each thread; the engine's own
  // thread never does.
  CoreShare share{};
  std::uint64_t fusion_bytes = std::uint64_t{64} << 20U;
  // Told when the oldest operation has been pending for so long, and again after as much; 0: never.
  // On a thread that waits.
  std::chrono::milliseconds stall_after{0};
  std::function<void(const PendingReport&)> on_stalled{};
  // Told when each phase of an operation begins and ends; outlives the engine. May be null.
  Timeline* timeline = nullptr;
  // Behind the names of its operations there: of a process set, where other engines have the same.
  std::string timeline_suffix{};
  // The names of the communicator's ranks in errors; none: their number in it.
  std::vector<int> rank_names{};
  // This rank's; null when it has none, and why that is.
  std::shared_ptr<RankGpu> gpu{};
  std::string no_gpu = "GPUs are not set up";
  std::chrono::milliseconds gpu_connect_timeout{300'000};
  // The id of the NCCL communicator, where the ranks have been told it already: rank 0's, on all of
  // them. None: it is made for the first operation on GPU memory.
  std::optional<nccl::UniqueId> gpu_id{};
  // After an error shutdown() waits so long for what is queued on the GPU: what all ranks have
  // queued ends soon, the rest never.
  std::chrono::milliseconds gpu_leave_timeout{10'000};
};

// Since the engine was made.
struct EngineStatistics {
  std::uint64_t operations = 0;    // that have run
  std::uint64_t batches = 0;       // that they were
  std::uint64_t negotiations = 0;  // times that ranks exchanged what they have
};

class Engine {
 public:
  Engine(std::unique_ptr<Communicator> communicator, EngineOptions options);
  // shutdown()
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // For rank(), size(), abort() and peer_gone().
  Communicator& communicator() { return *communicator_; }

  // Blocks until the operation is done; throws its error. One on GPU memory is done when it has
  // been queued, and what comes later on its stream runs after it; poll() and wait() tell of its
  // end.
  void run(const Operation& operation) HVD_EXCLUDES(mutex_);
  // Returns the number for poll() and synchronize().
  std::uint64_t submit(const Operation& operation) HVD_EXCLUDES(mutex_);
  bool poll(std::uint64_t id) HVD_EXCLUDES(mutex_);
  bool wait(std::uint64_t id, std::chrono::milliseconds limit) HVD_EXCLUDES(mutex_);
  void synchronize(std::uint64_t id) HVD_EXCLUDES(mutex_);
  // Calls `body` once the operation has ended, well or not, on the thread that has run it; at once
  // where it has ended. It may submit further operations, must not wait for any, and must not
  // throw. One for each operation.
  void then(std::uint64_t id, std::function<void()> body) HVD_EXCLUDES(mutex_);
  // For all ranks together: an NCCL communicator of some of them (ascending), for their process
  // set, made of this engine's own. Null on the others, and everywhere when there is nothing to
  // make it of: the set's first operation makes one then. Throws the same on every rank.
  std::unique_ptr<NcclCommunicator> split_gpu(std::vector<int> members) HVD_EXCLUDES(mutex_);
  // The one that split_gpu() has made, before anybody uses this engine.
  void adopt_gpu(std::unique_ptr<NcclCommunicator> made);
  // Takes part in whatever the other ranks run until all have called it; returns the one that did
  // so last.
  int join() HVD_EXCLUDES(mutex_);

  EngineStatistics statistics() HVD_EXCLUDES(mutex_);
  PendingReport pending_report() HVD_EXCLUDES(mutex_);

  // Finishes what was submitted; every operation ends by its deadline. Later calls throw.
  void shutdown() noexcept HVD_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Running;

  // A thread's place in the communicator.
  enum class Occupancy : std::uint8_t {
    free,       // nobody is there
    working,    // somebody runs or negotiates
    lingering,  // somebody waits there for more operations of this rank
    awaiting,   // somebody is in Communicator::await_others()
  };
  // The engine's own thread may let the communicator go before it has told the end of a batch.
  enum class Tenure : bool { over, lasts };
  enum class Agreed : bool { no, yes };

  // The driver's knowledge of the other ranks since the last negotiation.
  struct Peers {
    std::vector<Offer> offers;
    std::vector<bool> joined;  // by rank
  };
  // The end of a join(), for its caller.
  struct Joined {
    int last = -1;  // the rank that did so last
    std::optional<hvd::Error> failure;
  };

  // engine.cpp
  std::shared_ptr<Entry> enqueue(const Operation& operation) HVD_REQUIRES(mutex_);
  void start_thread() HVD_REQUIRES(mutex_);
  void begin_waiting() HVD_REQUIRES(mutex_);
  void wait_done(const Entry& entry) HVD_REQUIRES(mutex_);
  void check_open() HVD_REQUIRES(mutex_);
  void tell_stalled() HVD_EXCLUDES(mutex_);
  void begin_on_gpu(const Operation& operation);
  void order_on_gpu(const Operation& operation) const;
  bool has_ended(const Entry& entry) const;
  std::string rank_text(std::size_t rank) const;

  // engine_drive.cpp
  void loop() HVD_EXCLUDES(mutex_);
  void drive(const Entry* until, bool may_spin) HVD_EXCLUDES(mutex_);
  void await() HVD_EXCLUDES(mutex_);
  void give_up_waiting() HVD_EXCLUDES(mutex_);
  void finish(const std::shared_ptr<Entry>& entry, std::shared_ptr<const hvd::Error> error)
      HVD_REQUIRES(mutex_);
  void continue_callers() HVD_EXCLUDES(mutex_);

  // engine_run.cpp
  void run(const Entries& batch, bool may_spin, Agreed agreed) HVD_EXCLUDES(mutex_);
  CallOptions call(std::uint64_t fingerprint, bool may_spin) const;
  void perform(const Operation& operation, const Scheduler::Direct& direct, bool may_spin);
  void perform(const Entries& batch, bool may_spin);

  // engine_negotiation.cpp
  void negotiate() HVD_EXCLUDES(mutex_);
  std::vector<Offer> exchange_offers() HVD_EXCLUDES(mutex_);
  std::vector<std::string> exchange(const std::string& own, std::uint64_t fingerprint)
      HVD_EXCLUDES(mutex_);
  void note_joined() HVD_EXCLUDES(mutex_);
  hvd::Error difference_in(const Operation& operation) HVD_EXCLUDES(mutex_);
  void settle_mismatches(const std::vector<std::uint64_t>& names) HVD_EXCLUDES(mutex_);
  void run_agreed(const Agreement& agreement) HVD_EXCLUDES(mutex_);
  void run_with_joined(const Agreement& agreement) HVD_EXCLUDES(mutex_);

  // engine_failures.cpp
  hvd::Error tell_others(const std::exception& trouble);
  hvd::Error tell_failed(const hvd::Error& named);
  hvd::Error tell_failed(const Operation& operation, const hvd::Error& error);
  void fail(const std::shared_ptr<Entry>& entry, const hvd::Error& error) HVD_EXCLUDES(mutex_);
  void fail_all(const hvd::Error& error) HVD_EXCLUDES(mutex_);

  const std::unique_ptr<Communicator> communicator_;
  const EngineOptions options_;
  const SlowWatch watch_;
  const std::unique_ptr<GpuExecutor> gpu_;  // null: no GPU

  // The driver's.
  Peers peers_;
  StallClock stalls_;
  Tenure tenure_ = Tenure::lasts;  // of the engine's own thread

  Mutex mutex_;
  CondVar work_;  // a thread has something to do
  CondVar done_;  // an entry is done
  Occupancy occupancy_ HVD_GUARDED_BY(mutex_) = Occupancy::free;
  Scheduler scheduler_ HVD_GUARDED_BY(mutex_);
  SubmissionLog submissions_ HVD_GUARDED_BY(mutex_);
  Handles handles_ HVD_GUARDED_BY(mutex_);
  Continuations continuations_ HVD_GUARDED_BY(mutex_);
  Joined joined_ HVD_GUARDED_BY(mutex_);
  EngineStatistics statistics_ HVD_GUARDED_BY(mutex_);
  int waiters_ HVD_GUARDED_BY(mutex_) = 0;  // callers that wait for an entry
  bool stopping_ HVD_GUARDED_BY(mutex_) = false;
  std::thread thread_ HVD_GUARDED_BY(mutex_);  // until shutdown() takes it
  // There is one, also while shutdown() waits for its end: a second would be nobody's to join.
  bool has_thread_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvdrun
