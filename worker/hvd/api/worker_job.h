// The job that this process belongs to: what hvd::init() makes and hvd::shutdown() ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/api/connect_set.h"
#include "worker/hvd/api/init_progress.h"
#include "worker/hvd/api/process_sets.h"
#include "worker/hvd/api/select_gpu.h"
#include "worker/hvd/client/agent_connection.h"
#include "worker/hvd/client/worker_environment.h"
#include "worker/hvd/comm/abort_signal.h"
#include "worker/hvd/comm/shm/death_watch.h"
#include "worker/hvd/comm/shm/shared_memory.h"
#include "worker/hvd/engine/core_share.h"
#include "worker/hvd/engine/engine.h"
#include "worker/hvd/engine/timeline.h"

namespace hvdrun {

struct JobPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
};

// Another rank was lost while the ranks of an elastic job met. This one has left, to come back.
class MeetingBrokenOff : public hvd::Error {
 public:
  using hvd::Error::Error;
};

class WorkerJob {
 public:
  // Joins the launcher's job, or makes a job of one rank. Throws MeetingBrokenOff, and Error.
  // `layout`: see WorkerJoin.
  WorkerJob(const EnvironmentLookup& lookup, const hvd::InitOptions& options,
            const std::string& layout = {});
  // The place of a process that is new in a running job and has not asked to be let in: it is the
  // one that its environment tells, and nobody is there yet. Throws Error.
  static std::unique_ptr<WorkerJob> waiting(const EnvironmentLookup& lookup,
                                            const WorkerEnvironment& environment);
  // Finishes what was submitted and says goodbye.
  ~WorkerJob();
  WorkerJob(const WorkerJob&) = delete;
  WorkerJob& operator=(const WorkerJob&) = delete;

  const JobPlace& place() const { return place_; }
  // Among those that this process sees; -1: the CPU.
  int gpu() const { return gpu_ ? gpu_->device().ordinal() : -1; }
  ProcessSets& sets() { return *sets_; }
  bool is_homogeneous() const;
  // A lost rank does not end the job; see <hvd/elastic_run.h>.
  bool is_elastic() const { return waits_ || (agent_ != nullptr && agent_->topology().elastic); }
  void enter_elastic(const std::string& layout);
  // It is not the job's first epoch: others have trained before.
  bool is_under_way() const;
  bool meeting_wanted() const { return agent_ != nullptr && agent_->meeting_wanted(); }
  // Ends what is under way. The end of this object is no goodbye then: the process joins again.
  void leave_to_return();
  // As leave_with_gpu(), in an elastic job; then the launcher knows it. With a reason the GPU's
  // operations fail for it first.
  std::optional<std::string> leave_gpu(const hvd::Error* reason);
  // The GPU stays open for as long as somebody holds this.
  std::shared_ptr<const void> hold_gpu() {
    return gpu_ ? std::make_shared<GpuParts>(gpu_->parts_alone()) : nullptr;
  }
  // None for a rank that is alone on its host.
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }
  // See <hvd/hvd.h>.
  void start_timeline(const std::string& path, bool mark_cycles);
  void stop_timeline();
  // Null without a launcher.
  Timeline* timeline() noexcept { return timeline_.get(); }
  // See AgentConnection. The object must be used no more.
  void abandon_in_child() noexcept;

 private:
  explicit WorkerJob(const JobPlace& place) : place_(place), waits_(true) {}

  void enter(const WorkerEnvironment& environment, AgentConnection::Deadline deadline,
             const EnvironmentLookup& lookup, const std::string& layout);
  void lose(const PeerLost& lost);
  // With the GPU of this local rank.
  void stay_alone(const EnvironmentLookup& lookup, int local_rank = 0, int local_size = 1);
  void take_gpu(GpuChoice choice, const EnvironmentLookup& lookup);
  // `set`: the id of the process set.
  EngineOptions engine_options(const CoreShare& share, int set);
  void record_timeline(const EnvironmentLookup& lookup, std::uint32_t generation);
  StallReport stall_report();
  std::unique_ptr<Communicator> connect(AgentConnection& agent, std::uint32_t generation,
                                        const CoreShare& share, AgentConnection::Deadline deadline,
                                        InitProgress& progress,
                                        const std::shared_ptr<AbortSignal>& abort);

  JobPlace place_;
  bool may_start_timeline_ = false;
  bool returns_ = false;
  bool waits_ = false;  // to ask whether it is let in
  // Null without a launcher; outlives the connection, which takes its events.
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<AgentConnection> agent_;  // none without a launcher
  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<DeathWatch> death_watch_;  // in an elastic job; speaks to the connection
  std::chrono::milliseconds init_timeout_{};
  std::chrono::milliseconds collective_timeout_{};
  std::uint64_t fusion_bytes_ = 0;
  std::vector<std::size_t> host_counts_;  // ranks of each host
  std::shared_ptr<RankGpu> gpu_;          // null: the CPU; outlives the engines
  std::string no_gpu_;                    // then: why
  std::unique_ptr<SetConnector> connector_;
  std::unique_ptr<ProcessSets> sets_;  // destroyed before the connection
};

}  // namespace hvdrun
