#include "worker/labs/train/cudnn_search.h"

#include <ATen/Context.h>

namespace hvdrun {
namespace {

// Seconds: the longest that has been measured.
constexpr double kLongestSearch = 24;
// The part of a step that its result saves: an assumption, on the low side.
constexpr double kGain = 0.1;

}  // namespace

bool search_pays(double seconds_left) { return seconds_left * kGain > kLongestSearch; }

CudnnSearch::CudnnSearch(const std::string& word, bool on_gpu)
    : on_gpu_(on_gpu), is_wanted_(on_gpu && word == "on"), is_open_(on_gpu && word == "auto") {}

double CudnnSearch::seconds_per_step(std::size_t steps, Time now) {
  if (measured_from_ == 0) {
    measured_from_ = steps;
    began_ = now;
  }
  if (steps <= measured_from_) return 0;
  const std::chrono::duration<double> seconds = now - began_;
  return seconds.count() / static_cast<double>(steps - measured_from_);
}

void CudnnSearch::decide(double seconds_left) {
  is_open_ = false;
  is_wanted_ = search_pays(seconds_left);
}

void CudnnSearch::allow(bool whole_batch) const {
  if (on_gpu_) at::globalContext().setBenchmarkCuDNN(is_wanted_ && whole_batch);
}

}  // namespace hvdrun
