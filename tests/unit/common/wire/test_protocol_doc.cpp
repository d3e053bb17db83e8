// docs/protocol.md says the same as the code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "common/wire/messages.h"
#include "common/wire/relay_messages.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::string read_doc() {
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  std::ostringstream text;
  text << std::ifstream(std::string(source) + "/docs/protocol.md").rdbuf();
  return text.str();
}

template <class M>
void add(std::map<std::string, int>& types, const char* name) {
  types[name] = static_cast<int>(M::kType);
}

TEST_CASE("the document has the number of every message, and no other", "[protocol]") {
  std::map<std::string, int> code;
  add<Hello>(code, "hello");
  add<Welcome>(code, "welcome");
  add<Refuse>(code, "refuse");
  add<Heartbeat>(code, "heartbeat");
  add<Log>(code, "log");
  add<Bootstrap>(code, "bootstrap");
  add<AgentReady>(code, "agent_ready");
  add<Launch>(code, "launch");
  add<RankStarted>(code, "rank_started");
  add<RankExited>(code, "rank_exited");
  add<RanksJoined>(code, "ranks_joined");
  add<RankLeft>(code, "rank_left");
  add<KillRanks>(code, "kill_ranks");
  add<EndJob>(code, "end_job");
  add<PeerLost>(code, "peer_lost");
  add<FenceEnter>(code, "fence_enter");
  add<FenceRelease>(code, "fence_release");
  add<FenceFailed>(code, "fence_failed");
  add<StorePut>(code, "store_put");
  add<StoreAck>(code, "store_ack");
  add<StoreGet>(code, "store_get");
  add<StoreValue>(code, "store_value");
  add<WorkerJoin>(code, "worker_join");
  add<WorkerTopology>(code, "worker_topology");
  add<SegmentGet>(code, "segment_get");
  add<SegmentDrop>(code, "segment_drop");
  add<Segment>(code, "segment");
  add<WorkerLeave>(code, "worker_leave");
  add<JobProgress>(code, "job_progress");
  add<JobEnded>(code, "job_ended");
  add<AbortJob>(code, "abort_job");
  add<HostFailed>(code, "host_failed");
  add<RankTrouble>(code, "rank_trouble");
  add<SignalRanks>(code, "signal_ranks");
  add<ProbeRanks>(code, "probe_ranks");
  add<RankProbes>(code, "rank_probes");
  add<LaunchChecked>(code, "launch_checked");
  add<StartRanks>(code, "start_ranks");
  add<CollectiveFailed>(code, "collective_failed");
  add<PeerGaveUp>(code, "peer_gave_up");
  add<BeginEpoch>(code, "begin_epoch");
  add<StartSlot>(code, "start_slot");
  add<HostLeaving>(code, "host_leaving");
  add<EndSlot>(code, "end_slot");
  add<MeetingWanted>(code, "meeting_wanted");
  add<AtDoor>(code, "at_door");
  add<ElasticEntered>(code, "elastic_entered");
  add<PeerDied>(code, "peer_died");
  add<SlotDying>(code, "slot_dying");
  add<EpochBegun>(code, "epoch_begun");
  add<ReopenHost>(code, "reopen_host");
  add<HostsListed>(code, "hosts_listed");
  add<SlotsAdded>(code, "slots_added");
  add<LeaveHost>(code, "leave_host");
  add<HostsOrder>(code, "hosts_order");
  add<HostsReply>(code, "hosts_reply");
  add<RankStalled>(code, "rank_stalled");
  add<SurveyRanks>(code, "survey_ranks");
  add<RankPictures>(code, "rank_pictures");
  add<WorkerStall>(code, "worker_stall");
  add<StallAsk>(code, "stall_ask");
  add<StallWarning>(code, "stall_warning");
  add<StatusQuery>(code, "status_query");
  add<JobStatus>(code, "job_status");
  add<RankEvent>(code, "rank_event");
  add<Output>(code, "output");
  add<Credit>(code, "credit");
  add<OutputClosed>(code, "output_closed");
  add<Input>(code, "input");
  add<InputCredit>(code, "input_credit");
  add<InputClosed>(code, "input_closed");
  add<FileFolder>(code, "file_folder");
  add<FileBegin>(code, "file_begin");
  add<FileData>(code, "file_data");
  add<FileEnd>(code, "file_end");
  add<FileCredit>(code, "file_credit");
  add<FileKept>(code, "file_kept");
  add<FileRemark>(code, "file_remark");
  add<RelayOpen>(code, "relay_open");
  add<RelayData>(code, "relay_data");
  add<RelayCredit>(code, "relay_credit");
  add<RelayEnd>(code, "relay_end");
  add<TimelineBatch>(code, "timeline_batch");
  add<TimelineControl>(code, "timeline_control");
  add<ClockQuery>(code, "clock_query");
  add<ClockReply>(code, "clock_reply");
  add<HorovodAsk>(code, "horovod_ask");
  add<HorovodReply>(code, "horovod_reply");
  add<HorovodFollow>(code, "horovod_follow");
  add<HorovodUnfollow>(code, "horovod_unfollow");
  add<HorovodCopy>(code, "horovod_copy");
  add<HorovodDrop>(code, "horovod_drop");
  add<HorovodCaughtUp>(code, "horovod_caught_up");
  add<HorovodTaken>(code, "horovod_taken");
  add<HorovodNotice>(code, "horovod_notice");

  std::map<std::string, int> doc;
  const std::string text = read_doc();
  const std::regex row("\\n\\| (\\d+) \\| ([a-z_]+) \\|");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), row); it != std::sregex_iterator();
       ++it)
    doc[(*it)[2]] = std::stoi((*it)[1]);
  CHECK(doc == code);
}

TEST_CASE("the document has the code's version", "[protocol]") {
  CHECK(read_doc().find("\nVersion " + std::to_string(kProtocolVersion) +
                        " (`kProtocolVersion`)") != std::string::npos);
}

// A program may have a libhvd of another build than its agent's.
TEST_CASE("a worker's place has the document's order, without the host", "[protocol]") {
  WorkerTopology topology;
  topology.rank = 1;
  topology.size = 2;
  topology.local_rank = 3;
  topology.local_size = 4;
  topology.cross_rank = 5;
  topology.cross_size = 6;
  topology.host = 7;
  topology.usable_cores = 8;
  std::string numbers;
  const std::string bytes = encode(topology);
  for (std::size_t at = 3; at < 7 * 4; at += 4) numbers += std::to_string(bytes.at(at));
  CHECK(numbers == "1234568");
}

TEST_CASE("the document's example is what the code writes", "[protocol]") {
  std::string hex;
  for (const char c : encode_frame(RankStarted{3, 4711}, 1)) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    hex += digits;
  }
  std::string text = read_doc();
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  CHECK(text.find(hex) != std::string::npos);
}

}  // namespace
}  // namespace hvdrun
