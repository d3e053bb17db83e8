// Messages that wait for a driver which does not read: one that its user has stopped, say. Those
// that it needs are few and wait as long as it takes, the verdict above all. Those that only tell
// of the job are left out and counted once too many wait, since a full queue would end the job.
// Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/messages.h"

namespace hvdrun {

class DriverBacklog {
 public:
  // True when a message of this type is sent, with `queued` bytes waiting already; else it counts.
  bool admits(MessageType type, std::size_t queued);
  // A line about what has been left out, once there is room again.
  std::optional<std::string> take_notice(std::size_t queued);

 private:
  std::uint64_t left_out_ = 0;
};

}  // namespace hvdrun
