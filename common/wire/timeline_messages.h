// The timeline: events that ranks record of their operations, on their way to the one file that
// hvdrun writes. And the exchange from which the hosts' clocks are aligned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/base_messages.h"

namespace hvdrun {

// Where an operation on a tensor stands, or what the program itself does (hvd::Activity). The
// numbers go over the wire.
enum class TimelinePhase : std::uint8_t {
  negotiate = 1,  // until every rank is there and means the same
  queue = 2,      // until the engine takes it up
  copy_in = 3,    // to where the others read it
  reduce = 4,     // the collective itself
  copy_out = 5,   // from there; libhvd's engine does not tell it apart
  data = 6,       // and the following: hvd::Activity
  forward = 7,
  backward = 8,
  synchronize = 9,
  step = 10,
};

enum class TimelineOp : std::uint8_t {
  none = 0,
  allreduce = 1,
  allgather = 2,
  broadcast = 3,
  reducescatter = 4,
  alltoall = 5,
  barrier = 6,
  join = 7,
  adasum = 8,
};

enum class TimelineMark : std::uint8_t {
  begin = 1,
  end = 2,
  cycle = 3,
  // The phase reduce on a GPU, which is told later than others that came after it.
  gpu_begin = 4,
  gpu_end = 5,
};

struct TimelineEvent {
  std::uint32_t after_ns = 0;  // TimelineEvents::begin_ns
  std::uint16_t name = 0;      // index into TimelineEvents::names
  TimelineMark mark{};
  TimelinePhase phase{};  // but with cycle
  TimelineOp op{};
  template <class V>
  void visit(V& v) {
    v(after_ns);
    v(name);
    v(mark);
    v(phase);
    v(op);
  }
};

// Self-contained, so that a batch may be lost: it names every tensor once.
struct TimelineEvents {
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC of the rank's host
  std::vector<std::string> names;
  std::vector<TimelineEvent> events;  // in the order of time, but for those of a GPU
  template <class V>
  void visit(V& v) {
    v(begin_ns);
    v(names);
    v(events);
  }
};

// Worker -> agent -> viewer. The agent reads only what stands in front of the bytes.
struct TimelineBatch {
  static constexpr auto kType = MessageType::timeline_batch;
  std::uint32_t rank = 0;
  std::uint32_t session = 0;    // counts the starts of the rank's timeline
  std::uint64_t clock_add = 0;  // ns, modulo 2^64, from the host's clock to hvdrun's; the agent's
  std::uint64_t dropped = 0;    // events that are missing before the first of these
  std::uint32_t count = 0;      // events in the bytes
  std::string bytes;            // TimelineEvents; empty when there are none
  template <class V>
  void visit(V& v) {
    v(rank);
    v(session);
    v(clock_add);
    v(dropped);
    v(count);
    v(bytes);
  }
};

// Worker -> agent -> viewer, behind the batches that belong before it: the program starts or stops
// the timeline while it runs. Every rank says so; the path is rank 0's.
struct TimelineControl {
  static constexpr auto kType = MessageType::timeline_control;
  std::uint32_t rank = 0;
  std::uint32_t session = 0;
  bool on = false;
  std::string path;  // of the file, where hvdrun runs
  template <class V>
  void visit(V& v) {
    v(rank);
    v(session);
    v(on);
    v(path);
  }
};

// Agent -> coordinator, and its answer. Both clocks are CLOCK_MONOTONIC.
struct ClockQuery {
  static constexpr auto kType = MessageType::clock_query;
  std::uint64_t sent_ns = 0;  // the agent's clock
  template <class V>
  void visit(V& v) {
    v(sent_ns);
  }
};

struct ClockReply {
  static constexpr auto kType = MessageType::clock_reply;
  std::uint64_t sent_ns = 0;  // of the query
  std::uint64_t now_ns = 0;   // the coordinator's clock
  std::string clock;          // which clock that is; equal: the agent has the same
  template <class V>
  void visit(V& v) {
    v(sent_ns);
    v(now_ns);
    v(clock);
  }
};

}  // namespace hvdrun
