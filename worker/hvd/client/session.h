// The worker's half of the conversation with its agent, without socket, clock or thread: bytes and
// descriptors in, events and bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"
#include "worker/hvd/client/worker_environment.h"

namespace hvdrun {

// The agent let this rank in.
struct Joined {
  std::uint32_t epoch = 0;
  WorkerTopology topology;
};

// A fence of ours opened (text is rank 0's blob) or failed (text is the reason).
struct FenceOutcome {
  std::uint32_t fence = 0;
  bool released = false;
  std::string text;
};

// The answer to a put, a get or a segment request.
struct Reply {
  std::uint64_t request = 0;
  Errc code = Errc::ok;
  std::string value;
  UniqueFd segment;
};

// The line is of no use any more; nothing follows.
struct LineFault {
  std::error_code code;
  std::string text;
};

using SessionEvent = std::variant<Joined, FenceOutcome, Reply, PeerLost, PeerGaveUp, StallAsk,
                                  MeetingWanted, LineFault>;

class Session {
 public:
  // Descriptors that may wait for their frame; more are closed.
  static constexpr std::size_t kMaxWaitingDescriptors = 16;

  // Hello and WorkerJoin are ready in take_output() at once. `layout`: see WorkerJoin.
  Session(const WorkerEnvironment& environment, std::uint32_t pid, std::string layout = {});

  // The next bytes of the stream, with the descriptors that came with them.
  void feed(std::string_view bytes, std::vector<UniqueFd> descriptors);
  void end_of_stream();
  std::vector<SessionEvent> take_events() { return std::exchange(events_, {}); }

  // Requests; only after Joined and before a fault. They return what the answer will carry.
  std::uint32_t enter_fence(std::string blob);
  std::uint64_t put(std::string key, std::string value);
  std::uint64_t get(std::string key, std::uint32_t timeout_ms);
  std::uint64_t get_segment(std::string name, std::uint64_t size);
  void drop_segment(std::string name);
  // `returns`: it joins again at once, in an elastic job's next epoch.
  void leave(bool returns = false);
  // The program goes on when others are lost.
  void enter_elastic(std::string layout);
  // Another rank of this host has died.
  void peer_died(std::uint32_t rank);
  // Tells the agent why a collective failed here.
  void collective_failed(CollectiveFailed message);
  // They get this rank's number.
  void timeline(TimelineBatch batch);
  void timeline(TimelineControl control);
  // The engine's pending operations: `request` is that of the StallAsk, 0 when nobody asked. Cut to
  // the limits.
  void stall(std::uint64_t request, StallReport report);

  // Bytes for the agent.
  std::string take_output() { return std::exchange(output_, {}); }
  bool has_output() const { return !output_.empty(); }
  std::size_t waiting_output() const { return output_.size(); }
  bool joined() const { return state_ == State::joined; }
  // The agent has answered; where this rank stands comes at once, or when the next epoch begins.
  bool waits_at_door() const { return state_ == State::wait_topology; }

 private:
  enum class State { wait_welcome, wait_topology, joined, lost };

  void on_frame(const Frame& frame);
  void on_welcome(const Frame& frame);
  void on_topology(const Frame& frame);
  void on_joined_frame(const Frame& frame);
  void on_fence(std::uint32_t fence, bool released, std::string text);
  void on_reply(MessageType request_type, std::uint64_t request, Errc code, std::string value);
  // Decodes, or reports the fault and returns false.
  template <class M>
  bool take(const Frame& frame, M& message);
  template <class M>
  void send(const M& message);
  void fault(std::error_code code, std::string text);

  const WorkerEnvironment environment_;
  State state_ = State::wait_welcome;
  std::uint32_t epoch_ = 0;
  std::uint32_t job_size_ = 0;  // ranks of the job, once joined
  FrameDecoder decoder_;
  std::string output_;
  std::vector<SessionEvent> events_;
  std::deque<UniqueFd> descriptors_;
  std::uint32_t next_fence_ = 0;
  std::uint32_t oldest_fence_ = 0;
  std::uint64_t next_request_ = 1;
  std::map<std::uint64_t, MessageType> pending_;  // request number and its type
  std::size_t pending_segments_ = 0;
};

}  // namespace hvdrun
