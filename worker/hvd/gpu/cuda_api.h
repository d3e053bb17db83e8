// The part of CUDA's driver API that libhvd calls, declared by us: it is loaded at run time
// (loader.h), so that one libhvd serves hosts with and without a GPU and builds without CUDA.
// api_check.cpp compares every line with cuda.h where that header is.
#pragma once

#include <cstddef>

namespace hvdrun::cuda {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kDeinitialized = 4;  // the process is on its way out
inline constexpr Result kNoDevice = 100;
inline constexpr Result kNotReady = 600;

using Device = int;
using DevicePointer = unsigned long long;
// Handles: never looked into.
using Context = struct ContextOfDriver*;
using Stream = struct StreamOfDriver*;
using Event = struct EventOfDriver*;
struct Uuid {
  char bytes[16];
};

// States of a stream: its later work becomes part of a graph, or has spoilt one.
inline constexpr int kCaptureNone = 0;
// A thread's mode: captures of other threads forbid it nothing.
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kStreamNonBlocking = 1;  // not ordered with the legacy default stream
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventWithTiming = 0;
inline constexpr int kPointerMemoryType = 2;  // an attribute of a pointer
inline constexpr unsigned kMemoryTypeDevice = 2;

// 11.4 is the first driver with cuDeviceGetUuid_v2, which tells the parts of a divided GPU (MIG)
// apart; what else is called here came before, stream-ordered memory with 11.2.
inline constexpr int kMinDriverVersion = 11040;

// Functions of every driver, however old: enough to say that it is too old.
// clang-format off
#define HVD_CUDA_BASE_FUNCTIONS(one) \
  one(init, cuInit, (unsigned)) \
  one(driver_get_version, cuDriverGetVersion, (int*)) \
  one(get_error_name, cuGetErrorName, (hvdrun::cuda::Result, const char**)) \
  one(get_error_string, cuGetErrorString, (hvdrun::cuda::Result, const char**))
#define HVD_CUDA_FUNCTIONS(one) \
  one(device_get_count, cuDeviceGetCount, (int*)) \
  one(device_get, cuDeviceGet, (hvdrun::cuda::Device*, int)) \
  one(device_get_name, cuDeviceGetName, (char*, int, hvdrun::cuda::Device)) \
  one(device_get_uuid, cuDeviceGetUuid_v2, (hvdrun::cuda::Uuid*, hvdrun::cuda::Device)) \
  one(primary_retain, cuDevicePrimaryCtxRetain, \
      (hvdrun::cuda::Context*, hvdrun::cuda::Device)) \
  one(primary_release, cuDevicePrimaryCtxRelease_v2, (hvdrun::cuda::Device)) \
  one(context_set_current, cuCtxSetCurrent, (hvdrun::cuda::Context)) \
  one(context_push, cuCtxPushCurrent_v2, (hvdrun::cuda::Context)) \
  one(context_pop, cuCtxPopCurrent_v2, (hvdrun::cuda::Context*)) \
  one(context_synchronize, cuCtxSynchronize, ()) \
  one(stream_priorities, cuCtxGetStreamPriorityRange, (int*, int*)) \
  one(stream_create, cuStreamCreateWithPriority, (hvdrun::cuda::Stream*, unsigned, int)) \
  one(stream_destroy, cuStreamDestroy_v2, (hvdrun::cuda::Stream)) \
  one(stream_wait_event, cuStreamWaitEvent, \
      (hvdrun::cuda::Stream, hvdrun::cuda::Event, unsigned)) \
  one(stream_is_capturing, cuStreamIsCapturing, (hvdrun::cuda::Stream, int*)) \
  one(thread_capture_mode, cuThreadExchangeStreamCaptureMode, (int*)) \
  one(event_create, cuEventCreate, (hvdrun::cuda::Event*, unsigned)) \
  one(event_destroy, cuEventDestroy_v2, (hvdrun::cuda::Event)) \
  one(event_record, cuEventRecord, (hvdrun::cuda::Event, hvdrun::cuda::Stream)) \
  one(event_query, cuEventQuery, (hvdrun::cuda::Event)) \
  one(event_elapsed, cuEventElapsedTime, (float*, hvdrun::cuda::Event, hvdrun::cuda::Event)) \
  one(memory_alloc, cuMemAlloc_v2, (hvdrun::cuda::DevicePointer*, std::size_t)) \
  one(memory_free, cuMemFree_v2, (hvdrun::cuda::DevicePointer)) \
  one(memory_alloc_async, cuMemAllocAsync, \
      (hvdrun::cuda::DevicePointer*, std::size_t, hvdrun::cuda::Stream)) \
  one(memory_free_async, cuMemFreeAsync, \
      (hvdrun::cuda::DevicePointer, hvdrun::cuda::Stream)) \
  one(copy_on_device, cuMemcpyDtoDAsync_v2, (hvdrun::cuda::DevicePointer, \
      hvdrun::cuda::DevicePointer, std::size_t, hvdrun::cuda::Stream)) \
  one(copy_to_device, cuMemcpyHtoDAsync_v2, (hvdrun::cuda::DevicePointer, const void*, \
      std::size_t, hvdrun::cuda::Stream)) \
  one(copy_from_device, cuMemcpyDtoHAsync_v2, (void*, hvdrun::cuda::DevicePointer, \
      std::size_t, hvdrun::cuda::Stream)) \
  one(pointer_attribute, cuPointerGetAttribute, (void*, int, hvdrun::cuda::DevicePointer))
// clang-format on
// NOLINTBEGIN(bugprone-macro-parentheses): they are names and lists of types
#define HVD_CUDA_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
// NOLINTEND(bugprone-macro-parentheses)
struct Api {
  HVD_CUDA_BASE_FUNCTIONS(HVD_CUDA_MEMBER)
  HVD_CUDA_FUNCTIONS(HVD_CUDA_MEMBER)
};
#undef HVD_CUDA_MEMBER

inline DevicePointer device_pointer(const void* memory) {
  static_assert(sizeof(DevicePointer) == sizeof(const void*));
  return reinterpret_cast<DevicePointer>(memory);
}

}  // namespace hvdrun::cuda
