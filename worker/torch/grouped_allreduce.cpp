// Many tensors in one operation: they are put one behind the other, in memory of one dtype.
#include <algorithm>

#include <hvd/torch.h>

#include "worker/torch/tensor_types.h"

namespace hvd {

std::vector<at::Tensor> grouped_allreduce(const std::vector<at::Tensor>& tensors, ReduceOp op,
                                          const ScaleFactors& scale, Compression compression) {
  const at::NoGradGuard no_grad;
  // They become one tensor here, and each would need a sum of its own.
  if (op == ReduceOp::adasum)
    hvdrun::invalid_tensor("grouped_allreduce: op adasum is not there yet; hvd::allreduce has it");
  for (const at::Tensor& tensor : tensors) hvdrun::check_tensor("grouped_allreduce", tensor);
  std::vector<at::ScalarType> types;  // of the wire, in the order of their first tensor
  const auto wire_of = [&](const at::Tensor& tensor) {
    return hvdrun::wire_type(tensor.scalar_type(), compression);
  };
  for (const at::Tensor& tensor : tensors)
    if (std::find(types.begin(), types.end(), wire_of(tensor)) == types.end())
      types.push_back(wire_of(tensor));

  std::vector<at::Tensor> results(tensors.size());
  for (const at::ScalarType type : types) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : tensors)
      if (wire_of(tensor) == type) parts.push_back(tensor.to(type).reshape({-1}));
    at::Tensor all = at::cat(parts);
    allreduce_(all, op, scale);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (wire_of(tensors[i]) != type) continue;
      const std::int64_t count = tensors[i].numel();
      // A tensor of its own, not a view that holds all of them in memory.
      results[i] = all.narrow(0, begin, count)
                       .view(tensors[i].sizes())
                       .to(tensors[i].scalar_type(), /*non_blocking=*/false, /*copy=*/true);
      begin += count;
    }
  }
  return results;
}

std::vector<at::Tensor> distributed_grad(const std::vector<at::Tensor>& outputs,
                                         const std::vector<at::Tensor>& inputs, ReduceOp op,
                                         Compression compression) {
  std::vector<at::Tensor> gradients =
      torch::autograd::grad(outputs, inputs, /*grad_outputs=*/{}, /*retain_graph=*/c10::nullopt,
                            /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(inputs[i]);
  return grouped_allreduce(gradients, op, {}, compression);
}

}  // namespace hvd
