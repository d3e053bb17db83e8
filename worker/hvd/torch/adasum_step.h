// A step whose outcome is combined, not its gradients: each rank steps on its own gradients, and
// what that did to the parameters is summed adaptively.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "worker/hvd/torch/contribution.h"

namespace hvdrun {

class AdasumStep {
 public:
  // Throws Error(invalid_argument) for parameters that cannot be reduced and options that do not go
  // together.
  AdasumStep(std::vector<at::Tensor> parameters, const hvd::DistributedOptimizerOptions& options);

  // The ranks' name of its operation, before the first step.
  void set_name(const std::string& name) { name_ = name + ".change"; }

  // Called by all ranks of the set. After an error the parameters are those of before the step; the
  // optimizer's own state is not.
  at::Tensor take(torch::optim::Optimizer& optimizer);
  // Later than zero_grad(): begins another round.
  void next_round();

 private:
  const std::vector<at::Tensor> parameters_;
  const hvd::DistributedOptimizerOptions options_;
  std::string name_;
  Contribution contribution_;  // of this round
};

}  // namespace hvdrun
