#include "worker/labs/train/run_speed.h"

#include <hvd/hvd.h>

namespace hvdrun {

RunSpeed::RunSpeed(const std::string& cudnn_search, bool on_gpu, std::size_t reports,
                   TrainConsole& console)
    : on_gpu_(on_gpu),
      reports_(reports),
      console_(console),
      search_(cudnn_search, on_gpu),
      leave_out_next_(on_gpu) {}

void RunSpeed::begin_epoch(std::size_t steps, std::size_t whole, Throughput::Time now) {
  in_epoch_ = steps;
  whole_ = whole;
  throughput_.begin_epoch(now);
}

void RunSpeed::before_step(std::size_t step) { search_.allow(step < whole_); }

void RunSpeed::after_step(std::size_t done, std::size_t samples, Throughput::Time now,
                          const std::function<std::size_t()>& left) {
  throughput_.step(done, samples, now);
  ++made_;
  if (!on_gpu_ || done % reports_ != 0) return;
  if (leave_out_next_ && done < in_epoch_) {
    throughput_.leave_out_steps_so_far();
    leave_out_next_ = false;
  }
  if (!search_.is_open()) return;
  double seconds = search_.seconds_per_step(made_, now);
  if (seconds == 0) return;
  hvd::allreduce(&seconds, &seconds, 1, hvd::ReduceOp::max);
  search_.decide(seconds * static_cast<double>(left()));
  leave_out_next_ = search_.is_wanted();
  announce();
}

Throughput::Epoch RunSpeed::end_epoch(Throughput::Time now) {
  search_.allow(false);
  return throughput_.of_epoch(now);
}

void RunSpeed::announce() {
  if (search_.is_wanted())
    console_.note(
        "cuDNN tries its algorithms: the next step takes up to half a minute more "
        "(--cudnn-search off: not at all)");
}

}  // namespace hvdrun
