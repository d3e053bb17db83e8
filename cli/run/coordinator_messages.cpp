#include "cli/run/coordinator_messages.h"

#include <type_traits>
#include <utility>

namespace hvdrun {

bool CoordinatorMessages::pass_on(const Frame& frame) const {
  const auto to = [&frame]<class M>(const std::function<void(M)>& on_message) {
    std::remove_cvref_t<M> message;
    if (decode(frame.payload, message)) return false;
    on_message(std::move(message));
    return true;
  };
  switch (frame.type) {
    case MessageType::welcome:
      return true;
    case MessageType::log:
      return to(log);
    case MessageType::job_progress:
      return to(progress);
    case MessageType::job_status:
      return to(status);
    case MessageType::rank_event:
      return to(rank);
    case MessageType::stall_warning:
      return to(stall);
    case MessageType::epoch_begun: {
      EpochBegun message;
      if (decode(frame.payload, message)) return false;
      epoch(frame.epoch, message);
      return true;
    }
    case MessageType::reopen_host:
      return to(reopen);
    case MessageType::slots_added:
      return to(slots_added);
    case MessageType::leave_host:
      return to(leave);
    case MessageType::job_ended:
      return to(ended);
    default:
      return false;
  }
}

}  // namespace hvdrun
