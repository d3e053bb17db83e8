#include "coordinator/driver_backlog.h"

#include <utility>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

bool only_tells(MessageType type) {
  return type == MessageType::log || type == MessageType::rank_event ||
         type == MessageType::stall_warning || type == MessageType::job_progress;
}

}  // namespace

bool DriverBacklog::admits(MessageType type, std::size_t queued) {
  if (queued <= limits::kMaxDriverQueue || !only_tells(type)) return true;
  ++left_out_;
  return false;
}

std::optional<std::string> DriverBacklog::take_notice(std::size_t queued) {
  if (left_out_ == 0 || queued > limits::kMaxDriverQueue) return std::nullopt;
  return std::to_string(std::exchange(left_out_, 0)) +
         " messages about the job (lines, events of ranks, warnings) are left out: hvdrun did not "
         "read for a while";
}

}  // namespace hvdrun
