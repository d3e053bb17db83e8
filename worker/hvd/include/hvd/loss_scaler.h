// Loss scaling for training in 16 bits. Included by <hvd/torch.h>.
#pragma once

#include <ATen/ATen.h>
#include <hvd/hvd.h>

namespace hvd {

class DistributedOptimizer;

struct LossScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;     // after growth_interval steps without an overflow
  double backoff_factor = 0.5;  // after one with
  int growth_interval = 2000;
};

// Small gradients are lost in 16 bits: the loss is multiplied by a scale, and the reduced gradients
// are divided by it. A step whose gradients are not all finite, on any rank, is left out by all
// ranks of the optimizer's process set. The scale gets smaller then, and grows again in time.
//
//   scaler.scale(loss).backward();
//   scaler.unscale(optimizer);  // only where gradients are looked at or clipped
//   torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
//   scaler.step(optimizer);
//
// One for each optimizer. Throws Error(invalid_argument) for options that would not shrink and grow
// the scale, and for another optimizer than before. Not thread-safe.
class HVD_EXPORT LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  // Before the backward() of each loss. Gradients that unscale() has divided before are then
  // another step's.
  at::Tensor scale(const at::Tensor& loss);
  // Waits until gradients are reduced and divides them by the scale; once for each step. True when
  // all of them are finite on all ranks. Called by all ranks of the optimizer's process set.
  bool unscale(DistributedOptimizer& optimizer);
  // unscale() where that was not called for this step; then the optimizer's step, or, after an
  // overflow, none (gradients are zero then). True when it was taken.
  bool step(DistributedOptimizer& optimizer);
  // The next loss is multiplied by it.
  double value() const { return scale_; }

 private:
  const LossScalerOptions options_;
  double scale_;
  int steps_without_overflow_ = 0;
  const DistributedOptimizer* optimizer_ = nullptr;  // the only one
  bool unscaled_ = false;
  bool finite_ = true;
};

}  // namespace hvd
