// hvd::init as the coordinator sees it: a rank comes from the moment it has joined, meets the
// others, enters the fence, and is through once the fence opens. Who waits there for whom, since
// when, and what is not clear yet about it. One init follows the other. Sans-I/O.
//
// Who comes and goes is told by slots. What is said of them, in lists and in words, are their ranks
// in the epoch.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/fence.h"
#include "coordinator/init_meeting.h"
#include "coordinator/init_watch.h"

namespace hvdrun {

// All ranks have come and the init does not get on: what the ranks are to be asked for.
struct InitDoubt {
  std::optional<TimePoint> warning;  // since when one is to be said
  bool ahead = false;                // ranks whose own time will be over
  bool cause = false;                // ranks whose own time was over
  bool end = false;                  // the time is over
  bool any() const { return warning || ahead || cause || end; }
};

class InitGate {
 public:
  InitGate(std::uint32_t size, InitWatch watch)
      : fence_(size), meeting_(size), watch_(std::move(watch)), ranks_(size) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  // A new epoch: of all slots 0 to size - 1 these take part, by rank. Nobody has come to it yet.
  void begin_epoch(std::uint32_t size, const std::vector<std::uint32_t>& members, TimePoint now);
  void came(const std::vector<std::uint32_t>& slots, TimePoint now);
  // Its line has ended, or its process has. One that is newer than the epoch has missed nothing.
  void left(std::uint32_t slot, TimePoint now);
  // Ranks are in the fence; the last one's release is returned, and then the next init begins.
  // Faults as Fence::enter's.
  std::optional<FenceRelease> enter(const FenceEnter& message, TimePoint now, Errc& fault);
  // Whoever is in the fence waits in vain for this slot: what to tell them. None: nobody is.
  std::optional<FenceFailed> break_off(std::uint32_t gone, TimePoint now);

  bool is_empty() const { return meeting_.count() == 0; }
  // The slot is not newer than the epoch.
  bool knows(std::uint32_t slot) const { return slot < ranks_.size(); }
  bool is_here(std::uint32_t slot) const { return meeting_.is_here(slot); }
  bool is_inside(std::uint32_t slot) const { return fence_.is_inside(slot); }
  // In order: in the fence or not, in the fence, and not here any more.
  std::vector<std::uint32_t> here() const { return ranks_of(meeting_.here()); }
  std::vector<std::uint32_t> inside() const { return ranks_of(fence_.waiting()); }
  std::vector<std::uint32_t> were_here() const { return ranks_of(meeting_.gone()); }
  // As InitMeeting's.
  bool is_hopeless(std::uint32_t exited, TimePoint now) {
    return meeting_.is_hopeless(exited, now);
  }

  // Brought up to date when somebody asks: after each rank that comes that would cost ranks x
  // ranks.
  InitWatch& watch(TimePoint now);
  // `somebody_exited`: is_hopeless() wants to be asked as well.
  std::optional<TimePoint> next_deadline(bool somebody_exited) const;

  InitDoubt& doubt() { return doubt_; }
  // The connections that this init lacked when somebody last looked, in words; empty: none. All
  // ends of one may be gone when the first says that its time was over.
  const std::string& known_links() const { return known_links_; }
  void set_known_links(std::string words) { known_links_ = std::move(words); }

 private:
  void update(TimePoint now);
  void update_watch(TimePoint now);
  std::vector<std::uint32_t> ranks_of(std::vector<std::uint32_t> slots) const;

  Fence fence_;
  InitMeeting meeting_;  // of which the fence is the end
  InitWatch watch_;
  bool watch_is_old_ = false;
  std::vector<std::uint32_t> ranks_;  // by slot; of one that takes no part it means nothing
  InitDoubt doubt_;
  std::string known_links_;
};

}  // namespace hvdrun
