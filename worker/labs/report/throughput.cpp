#include "worker/labs/report/throughput.h"

namespace hvdrun {

double Throughput::Span::rate(Time end) const {
  const std::chrono::duration<double> seconds = end - begin;
  return seconds.count() > 0 ? static_cast<double>(samples) / seconds.count() : 0;
}

void Throughput::begin_epoch(Time now) {
  epoch_ = {now, 0};
  interval_ = epoch_;
  left_out_ = 0;
  done_ = 0;
  last_ = now;
}

void Throughput::step(std::size_t done, std::size_t samples, Time now) {
  epoch_.samples += samples;
  interval_.samples += samples;
  done_ = done;
  last_ = now;
}

void Throughput::leave_out_steps_so_far() {
  epoch_ = {last_, 0};
  left_out_ = done_;
}

double Throughput::take_interval() {
  const double rate = interval_.rate(last_);
  interval_ = {last_, 0};
  return rate;
}

}  // namespace hvdrun
