#include "worker/hvd/torch/step_timeline.h"

namespace hvdrun {

bool StepTimeline::begin_backward() {
  if (in_backward_ || !hvd::timeline_is_on()) return false;
  in_backward_ = true;
  hvd::timeline_begin(lane_, hvd::Activity::backward);
  return true;
}

void StepTimeline::end_backward() noexcept {
  if (!std::exchange(in_backward_, false)) return;
  hvd::timeline_end(lane_, hvd::Activity::backward);
}

StepTimeline::Span::Span(const StepTimeline& timeline, hvd::Activity activity)
    : lane_(timeline.lane_), activity_(activity), on_(hvd::timeline_is_on()) {
  if (on_) hvd::timeline_begin(lane_, activity_);
}

StepTimeline::Span::~Span() {
  if (on_) hvd::timeline_end(lane_, activity_);
}

}  // namespace hvdrun
