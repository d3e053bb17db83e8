// The first step of ranks that are new in an elastic job. They take part while their state is under
// way, and count nothing. See contributors() in <hvd/elastic_run.h>.
//
// One for the process. The training's thread begins and ends it, others may ask meanwhile: autograd
// calls hooks on threads of its own, which the training's waits for.
#pragma once

#include <functional>
#include <vector>

#include <hvd/hvd.h>

namespace hvdrun {

class FirstStep {
 public:
  // The new ranks, ascending. `arrive` is called by catch_up(); `state` is what they lack.
  void begin(std::vector<int> newcomers, std::function<void()> arrive, const void* state = nullptr);
  // Without `arrive`: the ranks have left, or have the state by another way.
  void end();
  bool is_on() const { return !newcomers_.empty(); }
  // A program may have other states beside the one that is under way.
  bool is_of(const void* state) const { return state_ == state; }
  bool counts(int rank) const;
  // The number of these ranks that count.
  int contributors(const std::vector<int>& ranks) const;
  void catch_up();

  // True once for each step that has ended: its wait is to be told.
  bool take_ended();
  double seconds_waited() const { return waited_; }
  void set_waited(double seconds) { waited_ = seconds; }

 private:
  std::vector<int> newcomers_;
  std::function<void()> arrive_;
  const void* state_ = nullptr;
  bool ended_ = false;
  double waited_ = 0;
};

FirstStep& first_step();

// This process has come to a running job, and has not exchanged words with the others since.
bool is_unheard() noexcept;
void set_heard() noexcept;
// In libhvd: it has come to one.
bool came_late() noexcept;

}  // namespace hvdrun
