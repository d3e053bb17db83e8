#include <hvd/torch.h>

#include "worker/torch/tensor_types.h"

namespace hvdrun {
namespace {

[[noreturn]] void invalid(const std::string& text) {
  throw hvd::Error(hvd::ErrorCode::invalid_argument, text);
}

// The libhvd operations see memory and nothing else, so autograd must be told that a tensor has
// changed: a later backward() through the old value is then an error, not a wrong gradient.
void mark_changed(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
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
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) {
      invalid(std::string(what) + ": an expanded tensor cannot be changed in place; clone() it");
    }
  }
  const at::NoGradGuard no_grad;
  const at::Tensor dense = tensor.contiguous();
  f(dense.data_ptr(), count, type);
  tensor.copy_(dense);
}

}  // namespace

hvd::DataType check_tensor(const char* what, const at::Tensor& tensor) {
  if (!tensor.defined()) invalid(std::string(what) + ": an undefined tensor");
  if (!tensor.device().is_cpu()) {
    invalid(std::string(what) + ": a tensor on " + tensor.device().str() +
            "; only CPU tensors are supported");
  }
  if (tensor.layout() != at::kStrided) {
    invalid(std::string(what) + ": a sparse tensor; make it dense with to_dense()");
  }
  switch (tensor.scalar_type()) {
    case at::kInt:
      return hvd::DataType::int32;
    case at::kLong:
      return hvd::DataType::int64;
    case at::kFloat:
      return hvd::DataType::float32;
    case at::kDouble:
      return hvd::DataType::float64;
    case at::kByte:
      return hvd::DataType::uint8;
    case at::kChar:
      return hvd::DataType::int8;
    case at::kShort:
      return hvd::DataType::int16;
    case at::kHalf:
      return hvd::DataType::float16;
    case at::kBFloat16:
      return hvd::DataType::bfloat16;
    case at::kBool:
      return hvd::DataType::boolean;
    default:
      invalid(
          std::string(what) + ": dtype " + at::toString(tensor.scalar_type()) +
          "; supported are Float, Double, Half, BFloat16, Byte, Char, Short, Int, Long and Bool");
  }
}

}  // namespace hvdrun

namespace hvd {

at::Tensor allreduce(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale) {
  const DataType type = hvdrun::check_tensor("allreduce", tensor);
  const at::NoGradGuard no_grad;
  const at::Tensor input = tensor.contiguous();
  at::Tensor output = at::empty(input.sizes(), input.options());
  allreduce(input.data_ptr(), output.data_ptr(), static_cast<std::size_t>(input.numel()), type, op,
            scale);
  return output;
}

void allreduce_(at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale) {
  hvdrun::change_in_place("allreduce_", tensor, [&](void* data, std::size_t count, DataType type) {
    allreduce(data, data, count, type, op, scale);
  });
}

at::Tensor allgather(const at::Tensor& tensor) {
  const DataType type = hvdrun::check_tensor("allgather", tensor);
  if (tensor.dim() == 0) {
    hvdrun::invalid("allgather: a tensor without dimensions; reshape it to {1}");
  }
  const at::NoGradGuard no_grad;
  const at::Tensor input = tensor.contiguous();
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes[0] *= size();
  at::Tensor output = at::empty(sizes, input.options());
  allgather(input.data_ptr(), output.data_ptr(), static_cast<std::size_t>(input.numel()), type);
  return output;
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

double metric_average(double value) {
  double mean = 0;
  allreduce(&value, &mean, 1);
  return mean;
}

}  // namespace hvd
