#include "worker/hvd/gpu/kernels/common.cuh"

namespace hvdrun::kernels {
namespace {

template <class From, class To>
__global__ void convert(const From* input, To* output, std::size_t count) {
  for_each_element(count, [&](std::size_t i) {
    output[i] = narrow<To>(static_cast<double>(widen(input[i])));
  });
}

template <class From, class To>
int run(const void* input, void* output, std::size_t count, void* stream) {
  if (count == 0) return cudaSuccess;
  convert<From, To><<<blocks_for(count), kThreads, 0, stream_of(stream)>>>(
      static_cast<const From*>(input), static_cast<To*>(output), count);
  return cudaGetLastError();
}

}  // namespace
}  // namespace hvdrun::kernels

using namespace hvdrun::kernels;

HVD_KERNEL_EXPORT int hvd_cuda_compress(const void* input, void* output, std::size_t count,
                                        int type, void* stream) {
  switch (static_cast<hvd::DataType>(type)) {
    case hvd::DataType::float16:
      return run<float, __half>(input, output, count, stream);
    case hvd::DataType::bfloat16:
      return run<float, __nv_bfloat16>(input, output, count, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

HVD_KERNEL_EXPORT int hvd_cuda_decompress(const void* input, void* output, std::size_t count,
                                          int type, void* stream) {
  switch (static_cast<hvd::DataType>(type)) {
    case hvd::DataType::float16:
      return run<__half, float>(input, output, count, stream);
    case hvd::DataType::bfloat16:
      return run<__nv_bfloat16, float>(input, output, count, stream);
    default:
      return cudaErrorInvalidValue;
  }
}
