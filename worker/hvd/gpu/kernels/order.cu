// Floating-point numbers as integers of the same order, for NCCL's min and max: of floats they
// ignore a NaN.
#include "worker/hvd/gpu/kernels/common.cuh"

namespace hvdrun::kernels {
namespace {

// The integers of what a type is computed in. Negative numbers have their bits below the sign
// turned, so that -0 is -1; the largest and the smallest integer stand for NaNs only.
struct Keys32 {
  using Value = float;
  using Key = std::int32_t;
  static constexpr Key most = 0x7fffffff;
  static __device__ Key bits_of(Value value) { return __float_as_int(value); }
  static __device__ Value value_of(Key bits) { return __int_as_float(bits); }
};
struct Keys64 {
  using Value = double;
  using Key = std::int64_t;
  static constexpr Key most = 0x7fffffffffffffff;
  static __device__ Key bits_of(Value value) { return __double_as_longlong(value); }
  static __device__ Value value_of(Key bits) { return __longlong_as_double(bits); }
};
template <class W>
struct KeysOf {
  using type = Keys32;
};
template <>
struct KeysOf<double> {
  using type = Keys64;
};
template <class T>
using Keys = typename KeysOf<typename Wide<T>::type>::type;

template <class K>
__device__ typename K::Key turned(typename K::Key bits) {
  return bits < 0 ? bits ^ K::most : bits;
}

template <class T>
__global__ void order(const T* input, typename Keys<T>::Key* keys, std::size_t count, double factor,
                      bool nan_is_largest) {
  using K = Keys<T>;
  const auto by = static_cast<typename K::Value>(factor);
  const typename K::Key of_nan = nan_is_largest ? K::most : -K::most - 1;
  for_each_element(count, [&](std::size_t i) {
    const typename K::Value value = widen(input[i]) * by;
    keys[i] = value == value ? turned<K>(K::bits_of(value)) : of_nan;
  });
}

template <class T>
__global__ void restore(const typename Keys<T>::Key* keys, T* output, std::size_t count,
                        double factor) {
  using K = Keys<T>;
  const auto by = static_cast<typename K::Value>(factor);
  for_each_element(count, [&](std::size_t i) {
    output[i] = narrow<T>(static_cast<double>(K::value_of(turned<K>(keys[i])) * by));
  });
}

}  // namespace
}  // namespace hvdrun::kernels

using namespace hvdrun::kernels;

HVD_KERNEL_EXPORT int hvd_cuda_order(const void* input, void* keys, std::size_t count, int type,
                                     double factor, int nan_is_largest, void* stream) {
  if (count == 0) return cudaSuccess;
  const bool known = with_float_type(type, [&](auto value) {
    using T = decltype(value);
    order<T><<<blocks_for(count), kThreads, 0, stream_of(stream)>>>(
        static_cast<const T*>(input), static_cast<typename Keys<T>::Key*>(keys), count, factor,
        nan_is_largest != 0);
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}

HVD_KERNEL_EXPORT int hvd_cuda_restore(const void* keys, void* output, std::size_t count, int type,
                                       double factor, void* stream) {
  if (count == 0) return cudaSuccess;
  const bool known = with_float_type(type, [&](auto value) {
    using T = decltype(value);
    restore<T><<<blocks_for(count), kThreads, 0, stream_of(stream)>>>(
        static_cast<const typename Keys<T>::Key*>(keys), static_cast<T*>(output), count, factor);
  });
  return known ? cudaGetLastError() : cudaErrorInvalidValue;
}
