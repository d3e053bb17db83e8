// The gradients of a list of parameters in flat buckets that are reduced while backward goes on.
//
// Each parameter's .grad is a tensor of its own over bucket memory. (A view of one large tensor
// would do until somebody calls zero_grad: autograd refuses to detach views.) Autograd adds to a
// defined .grad in place, so gradients arrive where they are reduced, without a copy.
//
// One round per training step: note_backward() / note_ready() for each gradient as autograd
// produces it, once for each backward pass of the round; finish(), next_round(). Buckets are
// launched in the order of the plan. So every rank submits the same operations in the same order,
// whatever order its gradients became ready in. After the first round that all ranks have finished
// the plan follows the order in which gradients became ready on all of them.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <hvd/torch.h>

#include "worker/hvd/torch/bucket_plan.h"
#include "worker/hvd/torch/contribution.h"
#include "worker/hvd/torch/parameter_names.h"

namespace hvdrun {

class GradientBuckets {
 public:
  // Takes over the gradients that the parameters have; an undefined one becomes zeros. Parameters
  // must be dense tensors of one device with at least one element. Throws Error(invalid_argument)
  // for options that do not go together, adasum among them.
  GradientBuckets(std::vector<at::Tensor> parameters, ParameterNames names,
                  const hvd::DistributedOptimizerOptions& options);
  // Waits for what is under way, since the other ranks read and write this memory until then. Gives
  // every parameter a gradient of its own.
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // The ranks' name of its operations, before the first of them.
  void set_name(const std::string& name);

  // Autograd is about to add to this gradient. Throws Error(invalid_argument) when it has done so
  // for every pass of this round already: the memory may be under reduction.
  void note_backward(std::size_t parameter) const;
  // It has; launches every bucket that is complete with it and next in order.
  void note_ready(std::size_t parameter);

  // Launches what is missing (a parameter that took no part counts with what its gradient holds)
  // and waits for everything; until ranks have agreed on an order, with one exchange more. Does
  // nothing when the round is finished already.
  void finish();
  // Begins with the plan that ranks have agreed on, if that is another one.
  void next_round();
  // All gradients to zero, bound again, or to none, so that autograd's own tensors are copied here
  // and nothing is added; what was under way is waited for and thrown away. `begun`: other ranks
  // may be in step() for this round and need all buckets.
  void zero(bool set_to_none, bool begun);
  bool empty() const { return gradients_.empty(); }
  // A gradient of this round has been through all its backward passes.
  bool has_begun() const;

 private:
  struct Gradient {
    at::Tensor parameter;
    at::Tensor tensor;  // over bucket memory
    std::size_t bucket = 0;
    int passes = 0;  // backward passes of this round
  };
  struct Bucket {
    hvd::OperationOptions options;  // its name
    hvd::DataType type;
    std::size_t elements;
    std::shared_ptr<void> memory;
    std::vector<std::size_t> gradients;
    std::size_t missing;                // gradients that are not ready
    at::Tensor values;                  // all of the memory
    at::Tensor wire;                    // what travels: rounded values, or the values themselves
    std::optional<hvd::Handle> handle;  // set while it is being reduced
    std::optional<c10::Stream> stream;  // of a GPU, that it was submitted on
  };

  std::string name_of(std::size_t place, const Bucket& bucket) const;
  // Buckets for the plan of this order; gradients keep what they hold.
  void lay_out(const std::vector<std::size_t>& order);
  void agree_on_order();
  static bool bound(const Gradient& gradient);
  void bind(Gradient& gradient) const;
  bool is_ready(const Gradient& gradient) const {
    return gradient.passes == options_.backward_passes_per_step;
  }
  void launch_next();
  void launch_rest();
  void wait();

  std::vector<Gradient> gradients_;  // indexed as the parameters
  std::vector<ParameterSize> sizes_;
  std::vector<Bucket> buckets_;  // in launching order
  const ParameterNames names_;
  const hvd::DistributedOptimizerOptions options_;
  const hvd::ReduceOp op_;         // of the operation on the bucket, with
  const hvd::ScaleFactors scale_;  // these factors
  const bool alone_;               // nothing is ever reduced: gradients may be anywhere
  std::string name_;               // of the optimizer
  std::size_t launched_ = 0;       // the buckets before this one are launched in this round
  Contribution contribution_;      // of this round
  bool finished_ = false;
  std::vector<std::size_t> became_ready_;  // in this round, in that order, until adapted
  bool adapted_ = false;
  std::vector<std::size_t> new_order_;  // for the plan of the next round; empty: as it is
  std::exception_ptr failure_;          // of this round
};

}  // namespace hvdrun
