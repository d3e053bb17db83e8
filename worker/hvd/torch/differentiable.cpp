#include "worker/hvd/torch/differentiable.h"

#include <memory>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "worker/hvd/torch/row_shapes.h"
#include "worker/hvd/torch/row_steps.h"
#include "worker/hvd/torch/tensor_handle.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

using torch::autograd::variable_list;

// A node with a function of ours: torch::autograd::Function keeps nothing of an OperationOptions.
class CollectiveBackward final : public torch::autograd::Node {
 public:
  CollectiveBackward(std::string name, const variable_list& outputs, Backward backward)
      : name_(std::move(name)), backward_(std::move(backward)) {
    for (const at::Tensor& output : outputs) outputs_.push_back(like(output));
  }

  // An output that had no part in the loss here may have had one on another rank: zeros go along.
  variable_list apply(variable_list&& gradients) override {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined()) gradients[i] = at::zeros(outputs_[i].sizes, outputs_[i].options);
    return backward_(gradients);
  }
  std::string name() const override { return name_; }

 private:
  struct Like {
    std::vector<std::int64_t> sizes;
    at::TensorOptions options;
  };
  // Integers have no gradient; zeros stand for it, so that all ranks go back together.
  static Like like(const at::Tensor& output) {
    const bool has_gradient = torch::autograd::isDifferentiableType(output.scalar_type());
    return {output.sizes().vec(),
            has_gradient ? output.options() : output.options().dtype(at::kFloat)};
  }

  std::string name_;
  Backward backward_;
  std::vector<Like> outputs_;
};

}  // namespace

bool needs_gradient(const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor& input : inputs)
    if (input.defined() && input.requires_grad()) return true;
  return false;
}

void set_backward(const char* name, const std::vector<at::Tensor>& inputs,
                  std::vector<at::Tensor>& outputs, Backward backward) {
  const auto node = std::make_shared<CollectiveBackward>(std::string("hvd.") + name, outputs,
                                                         std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (at::Tensor& output : outputs) {
    if (torch::autograd::isDifferentiableType(output.scalar_type()))
      torch::autograd::set_history(output, node);
    else
      node->add_input_metadata(torch::autograd::Node::undefined_input());
  }
}

void set_backward(const char* name, const at::Tensor& input, at::Tensor& output,
                  std::function<at::Tensor(const at::Tensor&)> backward) {
  std::vector<at::Tensor> outputs = {output};
  set_backward(name, {input}, outputs,
               [backward = std::move(backward)](const std::vector<at::Tensor>& gradients) {
                 return std::vector<at::Tensor>{backward(gradients[0])};
               });
}

hvd::OperationOptions backward_options(const hvd::OperationOptions& options) {
  return part_of(options, "grad");
}

void check_linear(const char* what, hvd::ReduceOp op) {
  if (op != hvd::ReduceOp::average && op != hvd::ReduceOp::sum)
    invalid_tensor(std::string(what) +
                   ": only average and sum have a gradient; detach() the tensor");
}

double scattered_factor(hvd::ReduceOp op, const hvd::ScaleFactors& scale,
                        const hvd::OperationOptions& options) {
  const double factor = scale.prescale * scale.postscale;
  return op == hvd::ReduceOp::average ? factor / ranks_of(options) : factor;
}

at::Tensor sum_of_own_rows(const at::Tensor& gradient, const std::vector<std::int64_t>& rows,
                           const hvd::OperationOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor input = gradient.contiguous();
  const auto place = static_cast<std::size_t>(place_in(options));
  const std::int64_t row_elements = elements_of_row(input);
  std::vector<std::size_t> counts;
  counts.reserve(rows.size());
  for (const std::int64_t one : rows)
    counts.push_back(static_cast<std::size_t>(one * row_elements));
  at::Tensor output = empty_like_rows(input, rows[place]);
  hvd::OperationOptions own = placed(options, input);
  own.shape.clear();
  own.varying_counts = true;
  hvd::reducescatterv(input.data_ptr(), output.data_ptr(), counts.data(),
                      check_tensor("allgather", input), hvd::ReduceOp::sum, {}, own);
  return output;
}

std::vector<at::Tensor> gathered_gradients(const std::vector<at::Tensor>& gradients,
                                           const std::vector<std::int64_t>& rows,
                                           const hvd::OperationOptions& options) {
  const hvd::TensorHandle handle = hvd::grouped_allgather_async(gradients, options);
  std::vector<at::Tensor> all = hvd::synchronize_all(handle);
  const std::vector<std::vector<std::int64_t>>& came = handle.state().steps->rows_of_ranks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size(0) == rows[i]) continue;
    at::Tensor whole = empty_like_rows(all[i], rows[i]).zero_();
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t rank = 0; rank < came[i].size(); ++rank) {
      whole.narrow(0, to, came[i][rank]).copy_(all[i].narrow(0, from, came[i][rank]));
      from += came[i][rank];
      to += scattered_rows(whole, came[i].size(), rank);
    }
    all[i] = whole;
  }
  return all;
}

}  // namespace hvdrun
