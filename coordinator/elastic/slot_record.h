// One slot of an elastic job: how its processes come and go, and when the next one may be started.
// Sans-I/O.
//
//            let in                said goodbye
//   at_door ────────▶ member ─────────────────────▶ leaving ──exit 0──▶ done
//      ▲               │    │ died                     │
//      │ joined        │    ▼                          │
//      │               │  dying                        │
//      │               ▼    ▼ lost: its process ended  ▼
//   starting ◀─pause── gone ──────failed too often──▶ left_out
//                       ▲
//                       └─its host is back── away ◀── its host is lost
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time_point.h"

namespace hvdrun {

enum class SlotState : std::uint8_t {
  member,    // its process is of this epoch
  dying,     // it was, and nothing comes of it any more; the kernel is not done with it
  leaving,   // it was, and has said that it needs nobody any more
  done,      // and has ended with 0
  gone,      // its process is lost; the next one waits for its time
  starting,  // the agent has been told to start the next one
  at_door,   // that one waits to be let in
  away,      // its host is lost, and may come back
  left_out,  // it has failed too often, or its host is lost for ever
};

class SlotRecord {
 public:
  // So many losses within the window, and the slot is left out.
  static constexpr std::size_t kMostLosses = 3;
  static constexpr std::chrono::minutes kWindow{10};
  // Before the second start within the window; twice as long before each further one.
  static constexpr std::chrono::milliseconds kFirstPause{1'000};

  SlotState state = SlotState::member;
  bool waits = false;       // a member that has come to its door for the next epoch
  bool goodbye = false;     // a member's, in a job of which nobody knows yet whether it goes on
  std::string died_as;      // "rank 3": what it was when it died; empty: that has not been seen
  bool came_back = false;   // at_door, after its goodbye: it knows what the members knew
  std::uint32_t start = 0;  // of its processes, the number of this one

  // Its process is lost. The first one of a window is followed at once.
  void lost(TimePoint now) {
    waits = goodbye = came_back = false;
    died_as.clear();
    std::erase_if(losses_, [now](TimePoint at) { return now - at > kWindow; });
    losses_.push_back(now);
    if (losses_.size() >= kMostLosses) {
      state = SlotState::left_out;
      return;
    }
    state = SlotState::gone;
    start_at_ = losses_.size() == 1 ? now : now + kFirstPause * (1U << (losses_.size() - 2));
  }
  void leave_out() {
    state = SlotState::left_out;
    waits = false;
  }
  std::size_t losses() const { return losses_.size(); }
  // While it is gone.
  TimePoint start_at() const { return start_at_; }

 private:
  std::vector<TimePoint> losses_;  // within the window
  TimePoint start_at_{};
};

}  // namespace hvdrun
