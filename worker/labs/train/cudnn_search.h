// cuDNN's search for the fastest algorithm of each convolution: 7 to 24 s on an H100, once for each
// shape. --cudnn-search on makes it before the first step, off never, auto where the run is long
// enough to win them back. Has not run on a GPU.
//
// All ranks decide alike, from the slowest one's time. Which algorithm is the fastest may differ
// from run to run, and with it the last bits of the results.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace hvdrun {

// True when a search makes up for its own time in what is left of a run, in seconds as it goes
// without.
bool search_pays(double seconds_left);

class CudnnSearch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Not `on_gpu`: nothing is ever searched.
  CudnnSearch(const std::string& word, bool on_gpu);

  // True when the next step would begin with a search, which the console announces.
  bool is_wanted() const { return is_wanted_; }
  // True when time has to be measured before it is known.
  bool is_open() const { return is_open_; }
  // `steps` of this run have been made, for the first time of more than one call. Nothing is
  // measured in the steps up to the first call. Then the seconds of a step, 0 before.
  double seconds_per_step(std::size_t steps, Time now);
  // `seconds_left` is the same on all ranks.
  void decide(double seconds_left);

  // Each shape is searched for: only steps of a whole batch are, not those of odd ends and tests.
  void allow(bool whole_batch) const;

 private:
  bool on_gpu_;
  bool is_wanted_;
  bool is_open_;
  std::size_t measured_from_ = 0;
  Time began_{};
};

}  // namespace hvdrun
