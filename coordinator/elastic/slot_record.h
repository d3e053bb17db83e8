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
//                       ▲  ▲
//                       │  └─its host is back── away ◀── its host is lost, or is opened only now
//                       │ listed                  ▲
//                   unwanted ─────────────────────┘
//                       ▲ its process ended
//   member, at_door ──▶ ending      its host is not listed any more, or there are enough without it
//
// left_out is left again where there is a time for it (--blacklist-cooldown-range).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time_point.h"
#include "coordinator/elastic/rank_dealer.h"

namespace hvdrun {

// "3 s", rounded up.
inline std::string whole_seconds(std::chrono::steady_clock::duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

enum class SlotState : std::uint8_t {
  member,    // its process is of this epoch
  dying,     // it was, and nothing comes of it any more; the kernel is not done with it
  leaving,   // it was, and has said that it needs nobody any more
  done,      // and has ended with 0
  gone,      // its process is lost; the next one waits for its time
  starting,  // the agent has been told to start the next one
  at_door,   // that one waits to be let in
  away,      // its host is lost, and may come back, or has never been there
  left_out,  // it has failed too often, or its host is lost for ever
  ending,    // it is not wanted, and its process has been asked to end
  unwanted,  // it is not wanted, and has no process
};

class SlotRecord {
 public:
  // So many losses within the window, and the slot is left out.
  static constexpr std::size_t kMostLosses = 3;
  static constexpr std::chrono::minutes kWindow{10};
  // Before the second start within the window; twice as long before each further one.
  static constexpr std::chrono::milliseconds kFirstPause{1'000};

  SlotState state = SlotState::member;
  bool wanted = true;      // the job is to have it
  bool waits = false;      // a member that has come to its door for the next epoch
  bool goodbye = false;    // a member's, in a job of which nobody knows yet whether it goes on
  std::string died_as;     // "rank 3": what it was when it died; empty: that has not been seen
  bool came_back = false;  // at_door, after its goodbye: it knows what the members knew
  bool banned = false;     // with its host, whatever it does: it is left out once it has ended
  // When one that is left out may be started again; none: never.
  std::optional<TimePoint> out_until;
  std::uint32_t times_out = 0;                 // that it has been left out
  std::shared_ptr<const Assignment> promised;  // the epoch that its process begins in
  TimePoint started_at{};                      // while it is starting
  bool is_slow = false;                        // likewise: others do not count on it any more
  std::uint32_t starts = 1;  // of its processes so far, with the one that the launch started
  // Its processes count from 0.
  std::uint32_t start() const { return starts - 1; }

  // Its process is lost. The first one of a window is followed at once.
  void lost(TimePoint now) {
    waits = goodbye = came_back = false;
    died_as.clear();
    std::erase_if(losses_, [now](TimePoint at) { return now - at > kWindow; });
    losses_.push_back(now);
    promised.reset();
    if (banned) return leave_out();
    if (!wanted) {
      state = SlotState::unwanted;
      return;
    }
    if (losses_.size() >= kMostLosses) return leave_out();
    state = SlotState::gone;
    start_at_ = losses_.size() == 1 ? now : now + kFirstPause * (1U << (losses_.size() - 2));
  }
  // Its process is gone, or it never had one, and that is nobody's fault. `host_is_there`: the next
  // one may be started at once.
  void settle(bool host_is_there, TimePoint now) {
    waits = goodbye = came_back = false;
    promised.reset();
    if (banned) return leave_out();
    state = !wanted ? SlotState::unwanted : host_is_there ? SlotState::gone : SlotState::away;
    start_at_ = now;
  }
  void leave_out() {
    state = SlotState::left_out;
    waits = false;
  }
  // It is left out no more, and its losses are forgotten.
  void take_back(bool host_is_there, TimePoint now) {
    banned = false;
    out_until.reset();
    losses_.clear();
    settle(host_is_there, now);
  }
  std::size_t losses() const { return losses_.size(); }
  // While it is gone.
  TimePoint start_at() const { return start_at_; }

 private:
  std::vector<TimePoint> losses_;  // within the window
  TimePoint start_at_{};
};

}  // namespace hvdrun
