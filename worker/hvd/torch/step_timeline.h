// An optimizer's work in a training step, in the timeline: BACKWARD, SYNCHRONIZE and STEP, on a
// lane with its name. The share of the collectives that backward hides can be read from it.
#pragma once

#include <string>
#include <utility>

#include <hvd/hvd.h>

namespace hvdrun {

class StepTimeline {
 public:
  void set_name(std::string lane) { lane_ = std::move(lane); }

  // Autograd has come to a gradient. True when that is the first one of a backward() to be told:
  // the caller has end_backward() called at its end.
  bool begin_backward();
  // Also when backward() has thrown, and will not tell its end. Does nothing without a begin.
  void end_backward() noexcept;

  // An activity that lasts as long as this object, which must not outlive the timeline.
  class Span {
   public:
    Span(const StepTimeline& timeline, hvd::Activity activity);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    const std::string& lane_;
    const hvd::Activity activity_;
    const bool on_;
  };

 private:
  std::string lane_;
  bool in_backward_ = false;
};

}  // namespace hvdrun
