// The bytes of a peer through the frame decoder, and each payload through the decoder of its
// message: a cut (its place is the first byte) changes nothing, and what decodes encodes to the
// same bytes.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/messages.h"
#include "common/wire/relay_mux.h"

namespace {

using namespace hvdrun;

template <class M>
void check(const Frame& frame) {
  if (frame.type != M::kType) return;
  M message;
  if (decode(frame.payload, message)) return;
  assert(encode(message) == frame.payload);
}

// The part of a batch that only the viewer reads.
void check_events(const Frame& frame) {
  TimelineBatch batch;
  TimelineEvents events;
  if (frame.type != MessageType::timeline_batch || decode(frame.payload, batch) ||
      decode(batch.bytes, events))
    return;
  assert(encode(events) == batch.bytes);
}

template <class... M>
void check_all(const Frame& frame) {
  (check<M>(frame), ...);
}

// Frames in words, then the fault.
std::string read(std::string_view bytes, std::size_t piece) {
  FrameDecoder decoder;
  std::string said;
  std::error_code ec;
  for (std::size_t at = 0; at < bytes.size() && !ec; at += piece) {
    decoder.feed(bytes.substr(at, piece));
    while (const auto frame = decoder.next(ec)) {
      said += std::to_string(static_cast<int>(frame->type)) + " " + std::to_string(frame->epoch) +
              " " + frame->payload + ";";
      check_all<Hello, Welcome, Refuse, Heartbeat, Log, Bootstrap, AgentReady, Launch,
                LaunchChecked, StartRanks, RankStarted, RankExited, RanksJoined, RankLeft,
                KillRanks, EndJob, PeerLost, FenceEnter, FenceRelease, FenceFailed, StorePut,
                StoreAck, StoreGet, StoreValue, WorkerJoin, WorkerTopology, SegmentGet, Segment,
                WorkerLeave, WorkerStall, StallAsk, RankStalled, SurveyRanks, RankPictures,
                StallWarning, JobProgress, JobEnded, AbortJob, HostFailed, Output, Credit,
                OutputClosed, RelayOpen, RelayData, RelayCredit, RelayEnd, TimelineBatch,
                TimelineControl, ClockQuery, ClockReply, BeginEpoch, HorovodNotice, HostLeaving,
                StartSlot, EndSlot, MeetingWanted, AtDoor, ElasticEntered, PeerDied, SlotDying,
                EpochBegun, HostsListed, SlotsAdded, LeaveHost, HostsOrder, HostsReply, FileFolder,
                FileBegin, FileData, FileEnd, FileCredit, FileKept, FileRemark>(*frame);
      check_events(*frame);
    }
  }
  return said + std::to_string(ec.value());
}

// The work of a relay on them, in words.
std::string relay(std::string_view bytes, std::size_t piece) {
  RelayMux mux;
  std::vector<RelayMux::Event> events;
  std::error_code ec;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    ec = mux.feed(bytes.substr(at, piece), events);
  std::string said;
  std::size_t held[kRelayStreams] = {};
  for (const RelayMux::Event& event : events) {
    const auto stream = static_cast<std::size_t>(event.stream);
    assert(stream < kRelayStreams);
    held[stream] += event.bytes.size();
    assert(held[stream] <= RelayMux::kCredit);
    said += std::to_string(static_cast<int>(event.what)) + " " + std::to_string(stream) + " " +
            event.bytes + ";";
  }
  return said + std::to_string(ec.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = read(bytes, bytes.size() + 1);
  assert(read(bytes, data[0] + std::size_t{1}) == whole);
  assert(relay(bytes, data[0] + std::size_t{1}) == relay(bytes, bytes.size() + 1));
  return 0;
}
