// The kernels' common part: launching over any number of elements, and the types' arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <hvd/hvd.h>

#include "worker/hvd/gpu/kernels_abi.h"

#define HVD_KERNEL_EXPORT extern "C" __attribute__((visibility("default")))

// The compiler compares each definition with what libhvd calls.
#define HVD_DECLARE(member, symbol, parameters) HVD_KERNEL_EXPORT int symbol parameters;
HVD_CUDA_KERNELS(HVD_DECLARE)
#undef HVD_DECLARE

namespace hvdrun::kernels {

inline constexpr unsigned kThreads = 256;
// Enough to fill any GPU; each thread takes more elements then.
inline constexpr std::size_t kMaxBlocks = 2048;

inline unsigned blocks_for(std::size_t count) {
  const std::size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

// For each element of this thread.
template <class F>
__device__ void for_each_element(std::size_t count, F&& body) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    body(i);
}

// The type that an element is computed in: float32, or float64 for float64 and integers.
template <class T>
struct Wide {
  using type = double;
};
template <>
struct Wide<float> {
  using type = float;
};
template <>
struct Wide<__half> {
  using type = float;
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
};

template <class T>
inline constexpr bool kIsWhole = true;
template <>
inline constexpr bool kIsWhole<float> = false;
template <>
inline constexpr bool kIsWhole<double> = false;
template <>
inline constexpr bool kIsWhole<__half> = false;
template <>
inline constexpr bool kIsWhole<__nv_bfloat16> = false;

template <class T>
__device__ typename Wide<T>::type widen(T value) {
  return static_cast<typename Wide<T>::type>(value);
}

// Whole numbers: truncated toward zero, limited to what T holds; NaN is 0.
template <class T>
__device__ T narrow(double value) {
  constexpr bool is_signed = T(-1) < T(0);
  constexpr T most =
      is_signed ? static_cast<T>((std::uint64_t{1} << (sizeof(T) * 8 - 1)) - 1) : T(-1);
  constexpr T least = is_signed ? static_cast<T>(-most - 1) : T(0);
  if (value >= static_cast<double>(most)) return most;
  if (value <= static_cast<double>(least)) return least;
  return value == value ? static_cast<T>(value) : T(0);
}
template <>
__device__ inline double narrow<double>(double value) {
  return value;
}
template <>
__device__ inline float narrow<float>(double value) {
  return static_cast<float>(value);
}
template <>
__device__ inline __half narrow<__half>(double value) {
  return __float2half_rn(static_cast<float>(value));
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(double value) {
  return __float2bfloat16_rn(static_cast<float>(value));
}

// Calls body with a value of the floating-point type; false for another type.
template <class F>
bool with_float_type(int type, F&& body) {
  switch (static_cast<hvd::DataType>(type)) {
    case hvd::DataType::float64:
      body(double{});
      return true;
    case hvd::DataType::float32:
      body(float{});
      return true;
    case hvd::DataType::float16:
      body(__half{});
      return true;
    case hvd::DataType::bfloat16:
      body(__nv_bfloat16{});
      return true;
    default:
      return false;
  }
}

// Any type but boolean, which there is no arithmetic for.
template <class F>
bool with_type(int type, F&& body) {
  switch (static_cast<hvd::DataType>(type)) {
    case hvd::DataType::int64:
      body(std::int64_t{});
      return true;
    case hvd::DataType::int32:
      body(std::int32_t{});
      return true;
    case hvd::DataType::int16:
      body(std::int16_t{});
      return true;
    case hvd::DataType::uint16:
      body(std::uint16_t{});
      return true;
    case hvd::DataType::int8:
      body(std::int8_t{});
      return true;
    case hvd::DataType::uint8:
      body(std::uint8_t{});
      return true;
    default:
      return with_float_type(type, body);
  }
}

inline cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace hvdrun::kernels
