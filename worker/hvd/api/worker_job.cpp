#include "worker/hvd/api/worker_job.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "worker/hvd/api/connect_hosts.h"
#include "worker/hvd/api/stall_teller.h"
#include "worker/hvd/api/world_id.h"
#include "worker/hvd/client/agent_errors.h"
#include "worker/hvd/client/timeline_settings.h"
#include "worker/hvd/comm/self_communicator.h"
#include "worker/hvd/comm/shm/shm_communicator.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;

// As the agent tells it, or the environment.
template <class Told>
JobPlace place_of(const Told& told) {
  return {static_cast<int>(told.rank),       static_cast<int>(told.size),
          static_cast<int>(told.local_rank), static_cast<int>(told.local_size),
          static_cast<int>(told.cross_rank), static_cast<int>(told.cross_size)};
}

// The time that the agent may take to hand out a segment while the job runs.
constexpr std::chrono::seconds kSegmentTimeout{30};
constexpr std::uint32_t kFirstEpoch = 1;

constexpr std::chrono::milliseconds kLossPatience{1'000};

class AgentSegments final : public SegmentSource {
 public:
  explicit AgentSegments(AgentConnection& agent) : agent_(agent) {}
  std::shared_ptr<const Mapping> open(const std::string& name, std::size_t bytes) override {
    const UniqueFd segment =
        agent_.segment(name, bytes, std::chrono::steady_clock::now() + kSegmentTimeout);
    return std::make_shared<const Mapping>(Mapping::of_file(segment.get(), bytes));
  }
  void drop(const std::string& name) noexcept override { agent_.drop_segment(name); }

 private:
  AgentConnection& agent_;
};

// With all ranks met this one leaves as by shutdown(): a rank that is lost is lost to those, too,
// that have come back for the next init() already. In an elastic job it comes back itself.
[[noreturn]] void give_up(AgentConnection& agent, const hvd::Error& error, bool have_met) {
  const hvd::Error named(error.code(), std::string("hvd::init(): ") + error.what());
  agent.report(named);
  const bool returns = agent.topology().elastic;
  if (have_met || returns) agent.leave(returns);
  if (returns && error.code() == ErrorCode::peer_lost)
    throw MeetingBrokenOff(named.code(), named.what());
  throw named;
}

// The process is not the first of its slot, and has had no job yet.
bool takes_place_of_lost(const EnvironmentLookup& lookup) {
  static std::atomic<bool> first{true};
  return first.exchange(false) && lookup("HVD_START").value_or("0") != "0";
}

}  // namespace

std::unique_ptr<WorkerJob> WorkerJob::waiting(const EnvironmentLookup& lookup,
                                              const WorkerEnvironment& environment) {
  std::unique_ptr<WorkerJob> job(new WorkerJob(place_of(environment)));
  job->stay_alone(lookup, job->place_.local_rank, job->place_.local_size);
  return job;
}

WorkerJob::WorkerJob(const EnvironmentLookup& lookup, const hvd::InitOptions& options,
                     const std::string& layout)
    : init_timeout_(read_timeout(lookup, "HVD_INIT_TIMEOUT", options.init_timeout)),
      collective_timeout_(
          read_timeout(lookup, "HVD_COLLECTIVE_TIMEOUT", options.collective_timeout)),
      fusion_bytes_(read_fusion_threshold(lookup, EngineOptions().fusion_bytes)) {
  const std::optional<WorkerEnvironment> environment = read_worker_environment(lookup);
  if (environment) {
    enter(*environment, std::chrono::steady_clock::now() + init_timeout_, lookup, layout);
  } else {
    if (const std::optional<std::string> warning = foreign_launcher_warning(lookup))
      std::fprintf(stderr, "%s\n", warning->c_str());
    stay_alone(lookup);
  }
  try {
    for (const auto& set : options.process_sets) sets_->add(set.ranks, set.name);
  } catch (const hvd::Error& error) {
    if (!agent_) throw;
    agent_->set_events({});
    give_up(*agent_, error, true);
  } catch (...) {
    // The line's thread must not call what is gone before the line is.
    if (agent_) agent_->set_events({});
    throw;
  }
}

EngineOptions WorkerJob::engine_options(const CoreShare& share, int set) {
  EngineOptions options;
  options.timeout = collective_timeout_;
  options.share = share;
  options.fusion_bytes = fusion_bytes_;
  options.gpu = gpu_;
  options.no_gpu = no_gpu_;
  options.gpu_connect_timeout = init_timeout_;
  if (!agent_) return options;
  AgentConnection& agent = *agent_;
  options.on_failed = [&agent, set](const hvd::Error& error) {
    // The others may not know of these, and nothing runs here after them.
    const bool gives_up = error.code() == ErrorCode::timeout || error.code() == ErrorCode::internal;
    agent.report(error, gives_up ? std::optional(static_cast<std::uint32_t>(set)) : std::nullopt);
  };
  options.timeline = timeline_.get();
  const WorkerTopology& topology = agent.topology();
  const auto teller =
      std::make_shared<StallTeller>(std::chrono::milliseconds(topology.stall_warning),
                                    std::chrono::milliseconds(topology.stall_shutdown));
  options.stall_after = teller->interval();
  // One thread at a time is in an engine.
  options.on_stalled = [this, &agent, teller](const PendingReport& report) {
    if (!report.oldest.empty() && teller->is_time(report.oldest.front().age))
      agent.report_stall(stall_report());
  };
  return options;
}

// The report of all process sets, the oldest first.
StallReport WorkerJob::stall_report() {
  StallReport all;
  std::chrono::steady_clock::time_point last{};
  for (const PendingReport& report : sets_->pending()) {
    for (const PendingReport::Item& item : report.oldest)
      all.pending.push_back({item.name,
                             static_cast<std::uint64_t>(item.age.count()),
                             {item.ranks.begin(), item.ranks.end()}});
    all.pending_count += report.pending;
    all.submitted += report.submitted;
    all.in_join |= report.joined;
    if (report.submitted == 0 || report.last_submitted_at < last) continue;
    last = report.last_submitted_at;
    all.last_submitted = report.last_submitted;
  }
  std::stable_sort(all.pending.begin(), all.pending.end(),
                   [](const auto& a, const auto& b) { return a.age_ms > b.age_ms; });
  return all;
}

void WorkerJob::record_timeline(const EnvironmentLookup& lookup, std::uint32_t generation) {
  const TimelineSettings settings = read_timeline_settings(lookup);
  timeline_ = std::make_unique<Timeline>([this](bool at_once) { agent_->timeline_ready(at_once); },
                                         Timeline::now, generation << 16U);
  agent_->set_timeline([this] { return timeline_->take(); });
  may_start_timeline_ = settings.dynamic;
  if (settings.from_start) timeline_->start(settings.mark_cycles);
}

void WorkerJob::start_timeline(const std::string& path, bool mark_cycles) {
  if (waits_)
    throw hvd::Error(ErrorCode::unavailable,
                     "start_timeline: this process is new in a running job; call it in "
                     "hvd::elastic::run()");
  if (!timeline_)
    throw hvd::Error(ErrorCode::unavailable,
                     "start_timeline: hvdrun writes the file, and did not start this process");
  if (timeline_->on())
    throw hvd::Error(ErrorCode::invalid_argument, "start_timeline: the timeline is on already");
  if (!may_start_timeline_)
    throw hvd::Error(ErrorCode::invalid_argument,
                     "start_timeline: write hvdrun --timeline-filename DYNAMIC to allow it");
  if (path.empty()) throw hvd::Error(ErrorCode::invalid_argument, "start_timeline: no path");
  timeline_->start(mark_cycles);
  agent_->start_timeline(timeline_->session(), place_.rank == 0 ? path : std::string());
}

void WorkerJob::stop_timeline() {
  if (!timeline_ || !timeline_->on()) return;
  if (gpu_) gpu_->tell_times();
  timeline_->stop();
  agent_->stop_timeline(timeline_->session());
}

// A later fault of the GPU is this rank's end: its operations throw it from then on.
void WorkerJob::take_gpu(GpuChoice choice, const EnvironmentLookup& lookup) {
  no_gpu_ = choice.selected.why;
  gpu_ = hvdrun::take_gpu(std::move(choice), lookup, [this](const hvd::Error& error) {
    if (agent_) agent_->report(error);
    sets_->abort(error);
  });
}

void WorkerJob::stay_alone(const EnvironmentLookup& lookup, int local_rank, int local_size) {
  GpuChoice choice = takes_place_of_lost(lookup)
                         ? choose_gpu_of_lost(lookup, local_rank, local_size)
                         : choose_gpu(lookup, local_rank, local_size);
  if (choice.error)
    throw hvd::Error(choice.error->code(), std::string("hvd::init(): ") + choice.error->what());
  take_gpu(std::move(choice), lookup);
  ProcessSets::Factory factory;
  factory.listen = [](const RankSet&, std::uint32_t) { return std::string(); };
  factory.connect = [](const RankSet&, std::uint32_t, const std::vector<std::string>&) {
    return std::unique_ptr<Communicator>(make_self_communicator());
  };
  factory.connected = [](const RankSet&, std::uint32_t) {};
  factory.engine = [this](const RankSet& set, std::unique_ptr<Communicator> communicator) {
    return std::make_unique<Engine>(std::move(communicator), engine_options({}, set.id));
  };
  auto world = std::make_unique<Engine>(make_self_communicator(), engine_options({}, 0));
  sets_ = std::make_unique<ProcessSets>(std::move(world), 0, 1, std::move(factory));
}

void WorkerJob::enter(const WorkerEnvironment& environment, AgentConnection::Deadline deadline,
                      const EnvironmentLookup& lookup, const std::string& layout) {
  std::optional<GpuChoice> chosen;
  if (takes_place_of_lost(lookup))
    chosen = choose_gpu_of_lost(lookup, environment.local_rank, environment.local_size);
  agent_ = std::make_unique<AgentConnection>(environment, deadline, layout);
  AgentConnection& agent = *agent_;
  const auto progress = std::make_shared<InitProgress>();
  const auto tell_progress = [progress] { return progress->report(); };
  agent.set_events({{}, {}, tell_progress});
  const WorkerTopology& topology = agent.topology();
  // It may have waited at its door for long, as the launcher allows.
  if (topology.elastic) deadline = std::chrono::steady_clock::now() + init_timeout_;
  const std::uint32_t generation = topology.generation;
  place_ = place_of(topology);
  // A process keeps its GPU whatever its rank becomes.
  GpuChoice gpu = chosen ? std::move(*chosen)
                  : topology.elastic
                      ? choose_gpu(lookup, environment.local_rank, environment.local_size)
                      : choose_gpu(lookup, place_.local_rank, place_.local_size);
  const CoreShare share{topology.usable_cores, topology.local_size, compute_threads(lookup)};
  // In an elastic job it is the epochs that follow each other, and in others the generations.
  record_timeline(lookup, generation + agent.epoch() - 1);
  std::unique_ptr<Communicator> communicator;
  std::optional<nccl::UniqueId> gpu_id;
  std::vector<PeerLost> early;  // touched by one event at a time, until there are none any more
  bool have_met = false;
  // In an elastic job nobody else ends the wait for a rank that is lost meanwhile.
  const auto abort = std::make_shared<AbortSignal>();
  if (topology.elastic)
    agent.set_events({[abort](const PeerLost& lost) {
                        if (!lost.clean) abort->raise(peer_lost_error(lost));
                      },
                      [abort](const hvd::Error& error) { abort->raise(error); }, tell_progress});
  try {
    communicator = connect(agent, generation, share, deadline, *progress, abort);
    // A rank that does not come is told by the fence, so what the ranks agree on comes after it.
    // One that dies meanwhile must not be waited for.
    std::string id = make_world_id(gpu, place_.rank, place_.size, lookup);
    progress->waits();
    gpu_id = world_id_of(agent.fence(std::move(id), deadline));
    have_met = true;
    agent.set_events(
        {[&early, agreeing = communicator.get()](const PeerLost& lost) {
           // One that has agreed and left does no harm; one that gave up first is waited for.
           if (lost.clean)
             agreeing->peer_gone(static_cast<int>(lost.rank), peer_lost_error(lost));
           else
             agreeing->abort(peer_lost_error(lost));
           early.push_back(lost);
         },
         [agreeing = communicator.get()](const hvd::Error& error) { agreeing->abort(error); },
         tell_progress});
    if (const auto reason = abort->reason()) throw hvd::Error(*reason);
    abort->close();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - AgentConnection::Deadline::clock::now());
    agree_on_gpus(gpu, *communicator, std::max(left, std::chrono::milliseconds(0)));
    take_gpu(std::move(gpu), lookup);
    agent.set_events({});
  } catch (const hvd::Error& error) {
    // A rank that dies refuses connections sooner than the launcher tells of its death.
    std::optional<hvd::Error> cause;
    if (topology.elastic && !have_met && error.code() == ErrorCode::unavailable)
      cause = abort->await_reason(kLossPatience);
    agent.set_events({});
    give_up(agent, cause.value_or(error), have_met);
  } catch (...) {
    agent.set_events({});  // they speak of what is on this stack
    throw;
  }
  EngineOptions world_options = engine_options(share, 0);
  world_options.gpu_id = gpu_id;
  auto world = std::make_unique<Engine>(std::move(communicator), std::move(world_options));
  connector_ =
      std::make_unique<SetConnector>(agent, host_counts_, generation, share, init_timeout_);
  ProcessSets::Factory factory;
  factory.listen = [this](const RankSet& set, std::uint32_t number) {
    return connector_->listen(set, number);
  };
  factory.connect = [this](const RankSet& set, std::uint32_t number,
                           const std::vector<std::string>& addresses) {
    return connector_->connect(set, number, addresses);
  };
  factory.connected = [this](const RankSet& set, std::uint32_t number) {
    connector_->connected(set, number);
  };
  factory.engine = [this, share](const RankSet& set, std::unique_ptr<Communicator> made) {
    EngineOptions options = engine_options(share, set.id);
    options.rank_names = set.ranks;
    options.timeline_suffix = " in " + set.short_text();
    return std::make_unique<Engine>(std::move(made), std::move(options));
  };
  sets_ =
      std::make_unique<ProcessSets>(std::move(world), place_.rank, place_.size, std::move(factory));
  for (const PeerLost& lost : early) lose(lost);
  agent.set_events({[this](const PeerLost& lost) {
                      const hvd::Error error = peer_lost_error(lost);
                      lose(lost);
                      // Kernels wait for a dead rank for ever. One that said goodbye has waited for
                      // its own, so what has been queued with it ends.
                      if (gpu_ && !lost.clean) gpu_->abort(error);
                    },
                    [this](const hvd::Error& error) {
                      sets_->abort(error);
                      if (gpu_) gpu_->abort(error);
                    },
                    [this] { return stall_report(); },
                    [this](const PeerGaveUp& peer) {
                      sets_->give_up(static_cast<int>(peer.process_set), gave_up_error(peer));
                    }});
  // Behind the fence, so all ranks hold their words. The agent tells every rank, this one too.
  if (death_watch_)
    death_watch_->watch([&agent, here = topology.local_ranks](std::size_t local_rank) {
      agent.report_death(here[local_rank]);
    });
}

// In an elastic job all are to meet anew. An operation that the lost rank has done its part of is
// given up, too: it may wait for another one that is stopped.
void WorkerJob::lose(const PeerLost& lost) {
  if (is_elastic() && !lost.clean)
    sets_->abort(peer_lost_error(lost));
  else
    sets_->peer_gone(static_cast<int>(lost.rank), peer_lost_error(lost));
}

// That of this host's ranks, and with it that of all.
std::unique_ptr<Communicator> WorkerJob::connect(AgentConnection& agent, std::uint32_t generation,
                                                 const CoreShare& share,
                                                 AgentConnection::Deadline deadline,
                                                 InitProgress& progress,
                                                 const std::shared_ptr<AbortSignal>& abort) {
  const WorkerTopology& topology = agent.topology();
  host_counts_ = {static_cast<std::size_t>(place_.size)};
  if (place_.size == 1) return make_self_communicator();
  if (topology.local_size > kMaxShmRanks)
    throw hvd::Error(ErrorCode::unavailable,
                     std::to_string(topology.local_size) + " ranks on one host; at most " +
                         std::to_string(kMaxShmRanks) + " can share memory");
  std::unique_ptr<HostCommunicator> local = make_self_communicator();
  if (topology.local_size > 1) {
    const std::size_t words_at = shm_segment_bytes(topology.local_size);
    const std::size_t bytes =
        words_at + (topology.elastic ? DeathWatch::area_bytes(topology.local_size) : 0);
    const UniqueFd segment =
        agent.segment("world/" + std::to_string(agent.epoch()) + "/" + std::to_string(generation),
                      bytes, deadline);
    ShmOptions shm;
    shm.rank = place_.local_rank;
    shm.size = place_.local_size;
    shm.ranks.assign(topology.local_ranks.begin(), topology.local_ranks.end());
    shm.may_spin = share.fits(0);
    memory_ = std::make_shared<SharedMemory>(std::make_shared<AgentSegments>(agent),
                                             static_cast<std::size_t>(place_.rank), generation);
    shm.memory = memory_;
    shm.abort = abort;
    const auto mapping = std::make_shared<const Mapping>(Mapping::of_file(segment.get(), bytes));
    local = make_shm_communicator(mapping, shm);
    if (topology.elastic)
      death_watch_ = std::make_unique<DeathWatch>(mapping, mapping->data() + words_at,
                                                  static_cast<std::size_t>(place_.local_rank),
                                                  topology.local_size);
  }
  if (place_.local_size == place_.size) return local;
  progress.waits();
  auto all = connect_hosts(agent, std::move(local), generation, deadline, host_counts_,
                           progress.links(), abort);
  progress.works();
  return all;
}

bool WorkerJob::is_homogeneous() const {
  return std::adjacent_find(host_counts_.begin(), host_counts_.end(), std::not_equal_to<>()) ==
         host_counts_.end();
}

WorkerJob::~WorkerJob() {
  if (!sets_) return;  // one that was to wait has no GPU
  sets_->shutdown();
  death_watch_.reset();  // before the goodbye: what ends behind it is no death
  if (!agent_) return;
  agent_->set_events({});
  agent_->leave(returns_);
  agent_->set_timeline({});
  memory_.reset();  // hvd::free() speaks to the agent no more
  sets_.reset();
  gpu_.reset();  // its watch reports by the line
  agent_.reset();
}

void WorkerJob::leave_to_return() {
  returns_ = true;
  sets_->shutdown();
}

std::optional<std::string> WorkerJob::leave_gpu(const hvd::Error* reason) {
  if (!gpu_ || !is_elastic()) return std::nullopt;
  auto why = gpu_->leave(reason);
  if (why) agent_->report({ErrorCode::unavailable, *why});
  return why;
}

void WorkerJob::enter_elastic(const std::string& layout) {
  if (is_elastic()) agent_->enter_elastic(layout, std::chrono::steady_clock::now() + init_timeout_);
}

bool WorkerJob::is_under_way() const { return is_elastic() && agent_->epoch() > kFirstEpoch; }

void WorkerJob::abandon_in_child() noexcept {
  if (agent_) agent_->abandon_in_child();
}

}  // namespace hvdrun
