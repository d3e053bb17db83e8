#include "worker/hvd/gpu/kernels/common.cuh"

namespace hvdrun::kernels {
namespace {

template <class T>
__global__ void scale(const T* input, T* output, std::size_t count, double first, double second) {
  using W = typename Wide<T>::type;
  const W by = static_cast<W>(first);
  const W then_by = static_cast<W>(second);
  for_each_element(count, [&](std::size_t i) {
    W value = widen(input[i]) * by;
    if constexpr (kIsWhole<T>) value = widen(narrow<T>(value));
    output[i] = narrow<T>(value * then_by);
  });
}

__global__ void normalise(std::uint8_t* data, std::size_t count) {
  for_each_element(count, [&](std::size_t i) { data[i] = data[i] != 0; });
}

}  // namespace
}  // namespace hvdrun::kernels

using namespace hvdrun::kernels;

HVD_KERNEL_EXPORT int hvd_cuda_abi_version() { return HVD_CUDA_ABI_VERSION; }

HVD_KERNEL_EXPORT const char* hvd_cuda_error_text(int result) {
  return cudaGetErrorString(static_cast<cudaError_t>(result));
}

HVD_KERNEL_EXPORT int hvd_cuda_scale(const void* input, void* output, std::size_t count, int type,
                                     double first, double second, void* stream) {
  if (count == 0) return cudaSuccess;
  const bool known = with_type(type, [&](auto value) {
    using T = decltype(value);
    scale<T><<<blocks_for(count), kThreads, 0, stream_of(stream)>>>(
        static_cast<const T*>(input), static_cast<T*>(output), count, first, second);
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

HVD_KERNEL_EXPORT int hvd_cuda_normalise_boolean(void* data, std::size_t count, void* stream) {
  if (count == 0) return cudaSuccess;
  normalise<<<blocks_for(count), kThreads, 0, stream_of(stream)>>>(static_cast<std::uint8_t*>(data),
                                                                   count);
  return cudaGetLastError();
}
