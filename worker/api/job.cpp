#include "worker/api/job.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "worker/api/join_hosts.h"
#include "worker/comm/self_communicator.h"
#include "worker/comm/shm_communicator.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;

JobPlace place_of(const WorkerTopology& topology) {
  return {static_cast<int>(topology.rank),       static_cast<int>(topology.size),
          static_cast<int>(topology.local_rank), static_cast<int>(topology.local_size),
          static_cast<int>(topology.cross_rank), static_cast<int>(topology.cross_size)};
}

// How long the agent may take to hand out a segment while the job runs.
constexpr std::chrono::seconds kSegmentTimeout{30};

class AgentSegments final : public SegmentSource {
 public:
  explicit AgentSegments(AgentLine& line) : line_(line) {}
  std::shared_ptr<const Mapping> open(const std::string& name, std::size_t bytes) override {
    const UniqueFd segment =
        line_.segment(name, bytes, std::chrono::steady_clock::now() + kSegmentTimeout);
    return std::make_shared<const Mapping>(Mapping::of_file(segment.get(), bytes));
  }
  void drop(const std::string& name) noexcept override { line_.drop_segment(name); }

 private:
  AgentLine& line_;
};

[[noreturn]] void give_up(AgentLine& line, const hvd::Error& error) {
  const hvd::Error named(error.code(), std::string("hvd::init(): ") + error.what());
  line.report(named);
  throw named;
}

}  // namespace

Job::Job(const EnvironmentLookup& lookup, const hvd::InitOptions& options,
         std::uint32_t generation) {
  const auto init_timeout = read_timeout(lookup, "HVD_INIT_TIMEOUT", options.init_timeout);
  const auto collective_timeout =
      read_timeout(lookup, "HVD_COLLECTIVE_TIMEOUT", options.collective_timeout);
  const std::optional<WorkerEnvironment> environment = read_worker_environment(lookup);
  if (environment) {
    join(*environment, std::chrono::steady_clock::now() + init_timeout, generation,
         collective_timeout, compute_threads(lookup));
    return;
  }
  if (const std::optional<std::string> warning = foreign_launcher_warning(lookup))
    std::fprintf(stderr, "%s\n", warning->c_str());
  engine_ = std::make_unique<Engine>(make_self_communicator(), collective_timeout);
}

void Job::join(const WorkerEnvironment& environment, AgentLine::Deadline deadline,
               std::uint32_t generation, std::chrono::milliseconds collective_timeout,
               std::uint32_t threads) {
  auto line = std::make_unique<AgentLine>(environment, deadline);
  const WorkerTopology& topology = line->topology();
  place_ = place_of(topology);
  const CoreShare share{topology.usable_cores, topology.local_size, threads};
  std::unique_ptr<Communicator> communicator;
  try {
    communicator = connect(*line, generation, share, deadline);
  } catch (const hvd::Error& error) {
    give_up(*line, error);
  }
  auto engine = std::make_unique<Engine>(
      std::move(communicator), collective_timeout,
      [told = line.get()](const hvd::Error& error) { told->report(error); }, share);
  try {
    line->fence({}, deadline);
  } catch (const hvd::Error& error) {
    give_up(*line, error);
  }
  Communicator& shared = engine->communicator();
  line->set_events({[&shared](const PeerLost& lost) {
                      shared.peer_gone(static_cast<int>(lost.rank), peer_lost_error(lost));
                    },
                    [&shared](const hvd::Error& error) { shared.abort(error); }});
  line_ = std::move(line);
  engine_ = std::move(engine);
}

// That of this host's ranks, and with it that of all.
std::unique_ptr<Communicator> Job::connect(AgentLine& line, std::uint32_t generation,
                                           const CoreShare& share, AgentLine::Deadline deadline) {
  const WorkerTopology& topology = line.topology();
  if (place_.size == 1) return make_self_communicator();
  if (topology.local_size > kMaxShmRanks)
    throw hvd::Error(ErrorCode::unavailable,
                     std::to_string(topology.local_size) + " ranks on one host; at most " +
                         std::to_string(kMaxShmRanks) + " can share memory");
  std::unique_ptr<HostCommunicator> local = make_self_communicator();
  if (topology.local_size > 1) {
    const std::size_t bytes = shm_segment_bytes(topology.local_size);
    const UniqueFd segment =
        line.segment("world/" + std::to_string(line.epoch()) + "/" + std::to_string(generation),
                     bytes, deadline);
    ShmOptions shm;
    shm.rank = place_.local_rank;
    shm.size = place_.local_size;
    shm.first_rank = static_cast<int>(topology.local_ranks.front());
    shm.may_spin = share.fits(0);
    memory_ = std::make_shared<SharedMemory>(std::make_shared<AgentSegments>(line),
                                             static_cast<std::size_t>(place_.rank), generation);
    shm.memory = memory_;
    local = make_shm_communicator(
        std::make_shared<const Mapping>(Mapping::of_file(segment.get(), bytes)), shm);
  }
  if (place_.local_size == place_.size) return local;
  return join_hosts(line, std::move(local), generation, deadline);
}

Job::~Job() {
  engine_->shutdown();
  if (!line_) return;
  line_->set_events({});
  line_->leave();
  memory_.reset();  // hvd::free() speaks to the agent no more
  engine_.reset();
  line_.reset();
}

void Job::abandon_in_child() noexcept {
  if (line_) line_->abandon_in_child();
}

}  // namespace hvdrun
