// Gradients that are sparse tensors, of embeddings say: only the rows that a step has touched
// travel.
#pragma once

#include <string>
#include <vector>

#include <hvd/torch.h>

namespace hvdrun {

class SparseGradients {
 public:
  SparseGradients(std::vector<at::Tensor> parameters,
                  const hvd::DistributedOptimizerOptions& options);

  // What ranks call its operations, before the first of them.
  void set_name(const std::string& name) { name_ = name; }

  // Reduces every gradient, once a round: .grad is then the coalesced sum or average of all ranks'.
  // An undefined one counts as one without rows.
  void finish();
  void next_round() { finished_ = false; }
  // Leaves all gradients undefined.
  void zero();

 private:
  std::vector<at::Tensor> parameters_;
  const hvd::DistributedOptimizerOptions options_;
  std::string name_;
  bool finished_ = false;
};

}  // namespace hvdrun
