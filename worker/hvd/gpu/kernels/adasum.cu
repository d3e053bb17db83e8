// Adasum of two vectors: each loses half of what it has in the other's direction, so that equal
// ones give their average and orthogonal ones their sum.
#include "worker/hvd/gpu/kernels/common.cuh"

namespace hvdrun::kernels {
namespace {

constexpr unsigned kBlocks = 256;  // fixed: the order of the sums must not depend on the GPU
constexpr unsigned kSums = 3;      // a*b, a*a, b*b

// The sum over the block's threads, in a tree of fixed shape; the result is the first thread's.
__device__ double sum_of_block(double own) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = values[0];
  __syncthreads();
  return sum;
}

// The sums of each block, behind the three results.
template <class T>
__global__ void partial_dots(const T* a, const T* b, std::size_t count, double* scratch) {
  double sums[kSums] = {0, 0, 0};
  for_each_element(count, [&](std::size_t i) {
    const double x = static_cast<double>(widen(a[i]));
    const double y = static_cast<double>(widen(b[i]));
    sums[0] += x * y;
    sums[1] += x * x;
    sums[2] += y * y;
  });
  for (unsigned s = 0; s < kSums; ++s) {
    const double sum = sum_of_block(sums[s]);
    if (threadIdx.x == 0) scratch[kSums + s * kBlocks + blockIdx.x] = sum;
  }
}

__global__ void whole_dots(double* scratch) {
  static_assert(kBlocks == kThreads, "a thread for each partial sum");
  for (unsigned s = 0; s < kSums; ++s) {
    const double sum = sum_of_block(scratch[kSums + s * kBlocks + threadIdx.x]);
    if (threadIdx.x == 0) scratch[s] = sum;
  }
}

// A vector of zeros takes nothing from the other. Nor does one whose squared norm is below the
// smallest normal number and has lost its digits.
__device__ double coefficient(double both, double squared_norm) {
  constexpr double kLeastNormal = 0x1p-1022;
  return squared_norm < kLeastNormal ? 1 : 1 - both / squared_norm / 2;
}

template <class T>
__global__ void combine(const T* a, const T* b, T* output, std::size_t count, const double* dots) {
  using W = typename Wide<T>::type;
  const W of_a = static_cast<W>(coefficient(dots[0], dots[1]));
  const W of_b = static_cast<W>(coefficient(dots[0], dots[2]));
  for_each_element(count, [&](std::size_t i) {
    output[i] = narrow<T>(static_cast<double>(of_a * widen(a[i]) + of_b * widen(b[i])));
  });
}

}  // namespace
}  // namespace hvdrun::kernels

using namespace hvdrun::kernels;

HVD_KERNEL_EXPORT std::size_t hvd_cuda_adasum_scratch() { return kSums + kSums * kBlocks; }

HVD_KERNEL_EXPORT int hvd_cuda_adasum_dots(const void* a, const void* b, std::size_t count,
                                           int type, double* scratch, void* stream) {
  const bool known = with_float_type(type, [&](auto value) {
    using T = decltype(value);
    partial_dots<T><<<kBlocks, kThreads, 0, stream_of(stream)>>>(
        static_cast<const T*>(a), static_cast<const T*>(b), count, scratch);
    whole_dots<<<1, kThreads, 0, stream_of(stream)>>>(scratch);
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

HVD_KERNEL_EXPORT int hvd_cuda_adasum_combine(const void* a, const void* b, void* output,
                                              std::size_t count, int type, const double* dots,
                                              void* stream) {
  if (count == 0) return cudaSuccess;
  const bool known = with_float_type(type, [&](auto value) {
    using T = decltype(value);
    combine<T><<<blocks_for(count), kThreads, 0, stream_of(stream)>>>(
        static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(output), count, dots);
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}
