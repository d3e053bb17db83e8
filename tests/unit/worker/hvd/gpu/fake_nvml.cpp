// The fake management library: a list of processes.
#include <cstring>
#include <unistd.h>
#include <vector>

#include "tests/unit/worker/hvd/gpu/fake_gpu.h"
#include "worker/hvd/gpu/nvml_api.h"

using namespace hvdrun;

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE nvml::Result nvmlInit_v2() { return nvml::kSuccess; }

// Its devices are those of the fake driver, by their bytes.
FAKE nvml::Result nvmlDeviceGetHandleByUUID(const char* uuid, nvml::Device* device) {
  static char place = 0;
  *device = reinterpret_cast<nvml::Device>(&place);
  return std::strcmp(uuid, "GPU-01010101-0101-0101-0101-010101010101") == 0 ||
                 std::strcmp(uuid, "MIG-02020202-0202-0202-0202-020202020202") == 0
             ? nvml::kSuccess
             : 6;
}

FAKE nvml::Result nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device, unsigned* count,
                                                          nvml::ProcessInfo* processes) {
  test::FakeGpu& fake = *fake_gpu();
  if (fake.nvml_result != 0) return fake.nvml_result;
  constexpr std::uint32_t kDead = 0x7ffffffe;  // more than the kernel gives
  std::vector<std::uint32_t> pids(100, 1);     // more than who asks expects at first
  if (fake.nvml_lists_me) pids.push_back(static_cast<std::uint32_t>(::getpid()));
  if (fake.nvml_lists_dead > 0) pids.push_back(kDead);
  const bool fits = *count >= pids.size();
  *count = static_cast<unsigned>(pids.size());
  if (!fits) return nvml::kInsufficientSize;
  if (fake.nvml_lists_dead > 0) --fake.nvml_lists_dead;
  for (std::size_t i = 0; i < pids.size(); ++i) processes[i].pid = pids[i];
  return nvml::kSuccess;
}
