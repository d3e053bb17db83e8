// Timeline events as Chrome's trace events: a process for each rank, in it a thread for each tensor
// (up to kTensorLanes; later ones share lanes), a complete event for each phase. Sans-I/O.
//
// What a tensor's operations do on a GPU has a lane of its own (for up to kGpuLanes tensors): the
// host may have begun the next one by then.
//
// On a lane phases never overlap without one being inside the other, whatever comes in, because
// viewers draw nothing sensible then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/wire/messages.h"

namespace hvdrun {

// JSON objects, one after the other.
struct TraceEvents {
  std::string text;
  std::vector<std::size_t> ends;  // of each in the text

  void add(std::string_view object) {
    text += object;
    ends.push_back(text.size());
  }
};

class TimelineFormat {
 public:
  static constexpr std::uint32_t kTensorLanes = 512;
  static constexpr std::uint32_t kSharedLanes = 256;
  static constexpr std::uint32_t kGpuLanes = 254;
  // Each rank's share of the numbers of threads, which are unique in the file; the last one of them
  // has what belongs to no tensor.
  static constexpr std::uint32_t kLanes = 1024;

  // `host_of`: the name of a rank's host.
  explicit TimelineFormat(std::function<std::string(std::uint32_t)> host_of)
      : host_of_(std::move(host_of)) {}

  // False: the events make no sense; nothing of the batch is added.
  [[nodiscard]] bool add(const TimelineBatch& batch, TraceEvents& out);
  // A phase that still lasts is written as unfinished, to this moment of hvdrun's clock. Nothing
  // may follow.
  void finish(std::uint64_t now_ns, TraceEvents& out);

 private:
  struct Phase {
    TimelinePhase phase{};
    TimelineOp op{};
    std::uint64_t begin = 0;
  };
  struct Lane {
    std::uint32_t number = 0;
    std::vector<Phase> open;  // each inside the one before it
  };
  struct GpuLane {
    std::uint32_t number = 0;
    bool open = false;
    Phase phase{};           // that is open
    std::uint64_t last = 0;  // here time goes on for itself
  };
  struct Rank {
    std::unordered_map<std::string, Lane> tensors;
    std::map<std::string, Lane> shared;  // those without a lane of their own, while a phase lasts
    std::unordered_map<std::string, GpuLane> gpu;
    std::vector<bool> lane_in_use = std::vector<bool>(kSharedLanes);
    std::uint32_t shared_named = 0;  // lanes that have a name in the file already
    bool named = false;
    bool notes_named = false;
    std::uint64_t last = 0;  // time never goes back
  };

  // The writing of one rank's events.
  struct Writer {
    std::uint32_t number = 0;
    Rank& rank;
    TraceEvents& out;
  };

  void name_rank(Writer& to) const;
  static void begin(Writer& to, const std::string& tensor, const Phase& phase);
  static void end(Writer& to, const std::string& tensor, TimelinePhase phase, std::uint64_t now);
  static void gpu_event(Writer& to, const std::string& tensor, const TimelineEvent& event,
                        std::uint64_t time);
  static GpuLane* gpu_lane_of(Writer& to, const std::string& tensor);
  static void note(Writer& to, std::string_view name, std::uint64_t now, std::string_view rest);
  // A phase that was begun before a gap may have ended in it.
  static void forget_open(Rank& rank);
  static Lane* lane_of(Writer& to, const std::string& tensor);
  static void leave_if_idle(Rank& rank, const std::string& tensor);
  static void write(Writer& to, const std::string& tensor, std::uint32_t lane, const Phase& phase,
                    std::uint64_t now, bool finished);
  static void name_lane(Writer& to, std::uint32_t lane, std::string_view name);

  std::function<std::string(std::uint32_t)> host_of_;
  std::map<std::uint32_t, Rank> ranks_;
};

}  // namespace hvdrun
