#include "worker/hvd/gpu/dead_memory.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <signal.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <dlfcn.h>

#include "worker/hvd/gpu/nvml_api.h"

namespace hvdrun {
namespace {

constexpr const char* kNvml = "libnvidia-ml.so.1";
constexpr std::chrono::milliseconds kEvery{50};
// Processes on one GPU, many more than there can be.
constexpr unsigned kMostProcesses = 4096;

template <class Function>
bool find_function(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// It stays loaded, as the driver does.
std::optional<nvml::Api> load_nvml(const std::string& file) {
  void* const library =
      ::dlopen(file.empty() ? kNvml : file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  nvml::Api api;
  if (library == nullptr || !find_function(library, "nvmlInit_v2", api.init) ||
      !find_function(library, "nvmlDeviceGetHandleByUUID", api.device_by_uuid) ||
      !find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", api.compute_processes))
    return std::nullopt;
  return api;
}

// "GPU-00112233-4455-6677-8899-aabbccddeeff"
std::string uuid_text(const char* kind, const cuda::Uuid& uuid) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = kind;
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

// None: NVML does not tell.
std::optional<std::vector<pid_t>> processes_on(const nvml::Api& api, nvml::Device device) {
  std::vector<nvml::ProcessInfo> found(64);
  for (;;) {
    auto count = static_cast<unsigned>(found.size());
    const nvml::Result result = api.compute_processes(device, &count, found.data());
    if (result == nvml::kInsufficientSize && found.size() < kMostProcesses) {
      found.resize(kMostProcesses);
      continue;
    }
    if (result != nvml::kSuccess) return std::nullopt;
    std::vector<pid_t> pids;
    for (unsigned i = 0; i < std::min<std::size_t>(count, found.size()); ++i)
      pids.push_back(static_cast<pid_t>(found[i].pid));
    return pids;
  }
}

bool is_dead(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

DeadMemory await_dead_memory(const GpuDevice& device, std::chrono::milliseconds patience,
                             const std::string& file) {
  const auto api = load_nvml(file);
  nvml::Device handle = nullptr;
  if (!api || api->init() != nvml::kSuccess ||
      (api->device_by_uuid(uuid_text("GPU", device.uuid()).c_str(), &handle) != nvml::kSuccess &&
       api->device_by_uuid(uuid_text("MIG", device.uuid()).c_str(), &handle) != nvml::kSuccess))
    return DeadMemory::unknown;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto pids = processes_on(*api, handle);
    if (!pids || std::find(pids->begin(), pids->end(), ::getpid()) == pids->end())
      return DeadMemory::unknown;
    if (std::none_of(pids->begin(), pids->end(), is_dead)) return DeadMemory::none;
    if (std::chrono::steady_clock::now() >= deadline) return DeadMemory::some;
    std::this_thread::sleep_for(kEvery);
  }
}

}  // namespace hvdrun
