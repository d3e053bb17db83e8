#include "worker/hvd/torch/tensor_types.h"

#include "worker/hvd/torch/cuda_stream.h"

namespace hvdrun {

void invalid_tensor(const std::string& text) {
  throw hvd::Error(hvd::ErrorCode::invalid_argument, text);
}

hvd::DataType check_tensor(const char* what, const at::Tensor& tensor) {
  if (!tensor.defined()) invalid_tensor(std::string(what) + ": an undefined tensor");
  if (tensor.is_cuda() && knows_cuda()) {
    const int gpu = hvd::gpu();
    if (gpu < 0)
      invalid_tensor(std::string(what) + ": a tensor on " + tensor.device().str() +
                     "; this rank computes on its CPU");
    if (tensor.device().index() != gpu)
      invalid_tensor(std::string(what) + ": a tensor on " + tensor.device().str() +
                     "; this rank's GPU is cuda:" + std::to_string(gpu));
  } else if (!tensor.device().is_cpu()) {
    invalid_tensor(std::string(what) + ": a tensor on " + tensor.device().str() +
                   (tensor.is_cuda() ? "; libhvd_torch was built with a LibTorch that has no CUDA"
                                     : "; only CPU and CUDA tensors are supported"));
  }
  if (tensor.layout() != at::kStrided) {
    invalid_tensor(std::string(what) + ": a sparse tensor; make it dense with to_dense()");
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
      invalid_tensor(
          std::string(what) + ": dtype " + at::toString(tensor.scalar_type()) +
          "; supported are Float, Double, Half, BFloat16, Byte, Char, Short, Int, Long and Bool");
  }
}

at::ScalarType wire_type(at::ScalarType type, hvd::Compression compression) {
  if (type != at::kFloat && type != at::kDouble) return type;
  switch (compression) {
    case hvd::Compression::fp16:
      return at::kHalf;
    case hvd::Compression::bf16:
      return at::kBFloat16;
    case hvd::Compression::none:
      break;
  }
  return type;
}

hvd::OperationOptions placed(const hvd::OperationOptions& options, const at::Tensor& tensor) {
  hvd::OperationOptions all = options;
  if (tensor.is_cuda()) {
    all.device = hvd::Device::gpu;
    all.stream = current_cuda_stream(tensor.device().index());
  }
  return all;
}

hvd::OperationOptions with_shape(const hvd::OperationOptions& options, const at::Tensor& tensor) {
  hvd::OperationOptions all = placed(options, tensor);
  all.shape = tensor.sizes().vec();
  return all;
}

hvd::OperationOptions on_host(const hvd::OperationOptions& options) {
  hvd::OperationOptions one = options;
  one.shape.clear();
  one.device = hvd::Device::cpu;
  one.stream = nullptr;
  return one;
}

hvd::OperationOptions part_of(const hvd::OperationOptions& options, const std::string& part) {
  hvd::OperationOptions one = on_host(options);
  if (!one.name.empty()) one.name += "." + part;
  one.description.clear();
  return one;
}

int ranks_of(const hvd::OperationOptions& options) {
  if (options.process_set.id == 0) return hvd::size();
  return static_cast<int>(hvd::process_set_ranks(options.process_set).size());
}

int place_in(const hvd::OperationOptions& options) {
  return options.process_set.id == 0 ? hvd::rank() : hvd::process_set_rank(options.process_set);
}

void check_not_expanded(const char* what, const at::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) {
      invalid_tensor(std::string(what) +
                     ": an expanded tensor cannot be changed in place; clone() it");
    }
  }
}

void mark_changed(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace hvdrun
