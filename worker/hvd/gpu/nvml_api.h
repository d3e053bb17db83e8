// The part of NVML, the management library of NVIDIA's driver, that libhvd calls, declared by us
// and loaded at run time, as cuda_api.h. Its header is in no package that the build has, so nothing
// compares the two.
#pragma once

#include <cstdint>

namespace hvdrun::nvml {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInsufficientSize = 7;  // the count says how many there are

using Device = struct DeviceOfNvml*;
// An entry, of version 2, which nvmlDeviceGetComputeRunningProcesses_v3 fills in.
struct ProcessInfo {
  std::uint32_t pid = 0;  // as this process sees it, or as the host does
  std::uint64_t used_memory = 0;
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
};

struct Api {
  Result (*init)() = nullptr;
  Result (*device_by_uuid)(const char*, Device*) = nullptr;  // "GPU-5f3a..."; "MIG-..." of a part
  Result (*compute_processes)(Device, unsigned*, ProcessInfo*) = nullptr;
};

}  // namespace hvdrun::nvml
