#include <hvd/torch.h>

#include "worker/torch/tensor_types.h"

namespace hvdrun {
namespace {

// One element of it may stand in several places.
void check_not_expanded(const char* what, const at::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) {
      invalid_tensor(std::string(what) +
                     ": an expanded tensor cannot be changed in place; clone() it");
    }
  }
}

// Calls f(contiguous memory) and brings the result back into `tensor`, whatever its strides.
template <class F>
void change_in_place(const char* what, at::Tensor& tensor, F f) {
  const hvd::DataType type = check_tensor(what, tensor);
  const auto count = static_cast<std::size_t>(tensor.numel());
  if (tensor.is_contiguous()) {
    f(tensor.data_ptr(), count, type);
    mark_changed(tensor);
    return;
  }
  check_not_expanded(what, tensor);
  const at::NoGradGuard no_grad;
  const at::Tensor dense = tensor.contiguous();
  f(dense.data_ptr(), count, type);
  tensor.copy_(dense);
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

at::Tensor allreduce(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                     Compression compression) {
  hvdrun::check_tensor("allreduce", tensor);
  const at::NoGradGuard no_grad;
  const at::ScalarType wire = hvdrun::wire_type(tensor.scalar_type(), compression);
  const at::Tensor input = tensor.to(wire).contiguous();
  at::Tensor output = at::empty(input.sizes(), input.options());
  allreduce(input.data_ptr(), output.data_ptr(), static_cast<std::size_t>(input.numel()),
            hvdrun::check_tensor("allreduce", input), op, scale);
  return output.to(tensor.scalar_type());
}

void allreduce_(at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                Compression compression) {
  hvdrun::check_tensor("allreduce_", tensor);
  const at::ScalarType wire = hvdrun::wire_type(tensor.scalar_type(), compression);
  if (wire != tensor.scalar_type()) {
    hvdrun::check_not_expanded("allreduce_", tensor);
    const at::NoGradGuard no_grad;
    tensor.copy_(allreduce(tensor, op, scale, compression));
    return;
  }
  hvdrun::change_in_place("allreduce_", tensor, [&](void* data, std::size_t count, DataType type) {
    allreduce(data, data, count, type, op, scale);
  });
}

void broadcast_(at::Tensor& tensor, int root) {
  hvdrun::change_in_place(
      "broadcast_", tensor,
      [root](void* data, std::size_t count, DataType type) { broadcast(data, count, type, root); });
}

void broadcast_parameters(torch::nn::Module& module, int root) {
  for (at::Tensor& parameter : module.parameters()) broadcast_(parameter, root);
  for (at::Tensor& buffer : module.buffers()) broadcast_(buffer, root);
}

}  // namespace hvd
