// The coordinator's messages to the driver.
#pragma once

#include <cstdint>
#include <functional>

#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace hvdrun {

struct CoordinatorMessages {
  std::function<void(const Log&)> log;
  std::function<void(const JobProgress&)> progress;
  std::function<void(const JobStatus&)> status;
  std::function<void(const RankEvent&)> rank;
  std::function<void(const StallWarning&)> stall;
  std::function<void(std::uint32_t number, const EpochBegun&)> epoch;
  std::function<void(const ReopenHost&)> reopen;
  std::function<void(const SlotsAdded&)> slots_added;
  std::function<void(const LeaveHost&)> leave;
  std::function<void(JobEnded)> ended;

  // Calls the one that the frame is for. False: it is for none, or cannot be decoded.
  bool pass_on(const Frame& frame) const;
};

}  // namespace hvdrun
