// The speed that a run tells of, and on a GPU what it must leave out and may win: the first steps,
// and cuDNN's search. Every rank has one, and they do the same.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "worker/labs/report/throughput.h"
#include "worker/labs/report/train_console.h"
#include "worker/labs/train/cudnn_search.h"

namespace hvdrun {

class RunSpeed {
 public:
  // Steps of a GPU are told in groups of `reports`. `console` outlives it.
  RunSpeed(const std::string& cudnn_search, bool on_gpu, std::size_t reports,
           TrainConsole& console);

  // Behind the run's header.
  void begin_run() { announce(); }
  // `whole`: its first so many steps have a batch of the full size.
  void begin_epoch(std::size_t steps, std::size_t whole, Throughput::Time now);
  void before_step(std::size_t step);
  // After a step that has been waited for, the `done`th of this epoch; `left` gives the steps that
  // the run still has. Collective, now and then, on a GPU.
  void after_step(std::size_t done, std::size_t samples, Throughput::Time now,
                  const std::function<std::size_t()>& left);
  Throughput::Epoch end_epoch(Throughput::Time now);

  Throughput& of_steps() { return throughput_; }

 private:
  void announce();

  const bool on_gpu_;
  const std::size_t reports_;
  TrainConsole& console_;
  Throughput throughput_;
  CudnnSearch search_;
  bool leave_out_next_;       // the next group of steps
  std::size_t made_ = 0;      // steps of the run
  std::size_t in_epoch_ = 0;  // steps of this one
  std::size_t whole_ = 0;
};

}  // namespace hvdrun
