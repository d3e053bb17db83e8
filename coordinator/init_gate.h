// hvd::init as the coordinator sees it: a rank comes from the moment it has joined, meets the
// others, enters the fence, and is through once the fence opens. Who waits there for whom, since
// when, and what is not clear yet about it. One init follows the other. Sans-I/O.
#pragma once

#include <cstdint>
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
      : fence_(size), meeting_(size), watch_(std::move(watch)) {}

  void came(const std::vector<std::uint32_t>& ranks, TimePoint now);
  // Its line has ended, or its process has.
  void left(std::uint32_t rank, TimePoint now);
  // Ranks are in the fence; the last one's release is returned, and then the next init begins.
  // Faults as Fence::enter's.
  std::optional<FenceRelease> enter(const FenceEnter& message, TimePoint now, Errc& fault);
  // Whoever is in the fence waits in vain for this rank: what to tell them. None: nobody is.
  std::optional<FenceFailed> break_off(std::uint32_t gone, TimePoint now);

  bool is_empty() const { return meeting_.count() == 0; }
  bool is_here(std::uint32_t rank) const { return meeting_.is_here(rank); }
  bool is_inside(std::uint32_t rank) const { return fence_.is_inside(rank); }
  std::vector<std::uint32_t> here() const { return meeting_.here(); }     // in the fence or not
  std::vector<std::uint32_t> inside() const { return fence_.waiting(); }  // in the fence
  std::vector<std::uint32_t> were_here() const { return meeting_.gone(); }
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

  Fence fence_;
  InitMeeting meeting_;  // of which the fence is the end
  InitWatch watch_;
  bool watch_is_old_ = false;
  InitDoubt doubt_;
  std::string known_links_;
};

}  // namespace hvdrun
