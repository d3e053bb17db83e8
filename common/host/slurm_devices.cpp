#include "common/host/slurm_devices.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace hvdrun {
namespace {

constexpr auto kDevices = std::to_array<std::string_view>(
    {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"});

}  // namespace

void leave_devices_to_slurm(Environment& job, const Environment& own) {
  for (const std::string_view name : kDevices) {
    const char* const here = find_variable(own, name);
    const char* const value = find_variable(job, name);
    if (here == nullptr || value == nullptr || std::string_view(here) != value) continue;
    erase_variable(job, name);
  }
}

void add_devices_of_slurm(Environment& job, const Environment& own) {
  if (find_variable(own, "SLURM_JOB_ID") == nullptr) return;
  for (const std::string_view name : kDevices) {
    const char* const here = find_variable(own, name);
    if (here != nullptr && find_variable(job, name) == nullptr) set_variable(job, name, here);
  }
}

Environment slurm_devices_elsewhere(const Environment& own, std::string_view unknown) {
  Environment there;
  if (const char* const job = find_variable(own, "SLURM_JOB_ID"); job != nullptr)
    set_variable(there, "SLURM_JOB_ID", job);
  for (const std::string_view name : kDevices)
    if (find_variable(own, name) != nullptr) set_variable(there, name, unknown);
  return there;
}

}  // namespace hvdrun
