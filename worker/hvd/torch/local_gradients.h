// Gradients of parameters that every rank trains on its own.
#pragma once

#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <hvd/torch.h>

#include "worker/hvd/torch/contribution.h"

namespace hvdrun {

class LocalGradients {
 public:
  LocalGradients(std::vector<at::Tensor> parameters,
                 const hvd::DistributedOptimizerOptions& options);

  // To the scale of the gradients that are reduced; once in a round.
  void finish();
  void next_round();
  void zero(bool set_to_none);

 private:
  std::vector<at::Tensor> parameters_;
  double divisor_ = 1;                            // and the contributors of
  std::optional<hvd::ProcessSet> averaged_over_;  // this set, if any
  Contribution contribution_;                     // of this round
  bool finished_ = false;
};

// To zero in place, or to none. What LibTorch's optimizers do by default differs by its version.
void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none);

}  // namespace hvdrun
