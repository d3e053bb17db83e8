// Gradients that are sparse tensors, of embeddings say: only the rows that a step has touched
// travel.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <hvd/torch.h>

#include "worker/hvd/torch/contribution.h"

namespace hvdrun {

class SparseGradients {
 public:
  SparseGradients(std::vector<at::Tensor> parameters,
                  const hvd::DistributedOptimizerOptions& options);

  // The ranks' name of its operations, before the first of them.
  void set_name(const std::string& name) { name_ = name; }

  // Reduces every gradient, once a round: .grad is then the coalesced sum or average of all ranks'.
  // An undefined one counts as one without rows. After an error it throws that again until the next
  // round.
  void finish();
  void next_round();
  // Leaves all gradients undefined. `begun`: this round's, if they have not been reduced yet, are,
  // for ranks that are in step().
  void zero(bool begun);
  // backward() has been through one in this round.
  bool has_begun() const { return look() != before_; }

 private:
  void reduce();
  // The tensors that the gradients are, and how often each was written: other ones after
  // backward().
  using Seen = std::pair<const c10::TensorImpl*, std::uint32_t>;
  std::vector<Seen> look() const;

  std::vector<at::Tensor> parameters_;
  const hvd::DistributedOptimizerOptions options_;
  std::string name_;
  Contribution contribution_;  // of this round
  bool finished_ = false;
  std::exception_ptr failure_;  // of this round
  std::vector<Seen> before_;    // at its beginning
};

}  // namespace hvdrun
