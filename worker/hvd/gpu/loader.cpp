#include "worker/hvd/gpu/loader.h"

#include <utility>
#include <vector>

#include <dlfcn.h>

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {
namespace {

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kNccl = "libnccl.so.2";
// Where NVIDIA's installer puts it, which the loader's cache need not know.
constexpr const char* kToolkitNccl = "/usr/local/cuda/lib64/libnccl.so.2";

// The reason why the last dlopen or dlsym of this thread failed, in one line.
std::string loader_error() {
  const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): a thread has its own
  return one_line(text != nullptr ? text : "unknown error");
}

void* open_library(const std::string& file, std::string& why) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) why = loader_error();
  return library;
}

// False when the library has no such function.
template <class Function>
bool find_symbol(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// The file that a function comes from.
template <class Function>
std::string file_of(Function function, const std::string& asked) {
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(function), &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : asked;
}

template <class T>
Loaded<T> cannot(std::string why) {
  return {nullptr, std::move(why)};
}

std::string missing_symbol(const std::string& file, const char* symbol) {
  return file + " has no " + symbol;
}

}  // namespace

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Before 2.9 NCCL had one digit less for the minor number.
std::string nccl_version_text(int version) {
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(version % 100);
}

Loaded<CudaDriver> load_cuda_driver(const std::string& file) {
  using Bad = CudaDriver;
  const std::string name = file.empty() ? kDriver : file;
  std::string why;
  void* const library = open_library(name, why);
  if (library == nullptr) return cannot<Bad>("there is no NVIDIA driver here: " + why);
  auto driver = std::make_unique<CudaDriver>();
  cuda::Api& api = driver->api;
#define HVD_LOAD(member, symbol, parameters)      \
  if (!find_symbol(library, #symbol, api.member)) \
    return cannot<Bad>("this is no NVIDIA driver: " + missing_symbol(name, #symbol));
  HVD_CUDA_BASE_FUNCTIONS(HVD_LOAD)
#undef HVD_LOAD
  const std::string needed =
      cuda_version_text(cuda::kMinDriverVersion) + " or newer is needed; update the driver";
  if (api.driver_get_version(&driver->version) == cuda::kSuccess &&
      driver->version < cuda::kMinDriverVersion)
    return cannot<Bad>("the NVIDIA driver is too old: it is for CUDA " +
                       cuda_version_text(driver->version) + ", and one for CUDA " + needed);
#define HVD_LOAD(member, symbol, parameters)      \
  if (!find_symbol(library, #symbol, api.member)) \
    return cannot<Bad>("the NVIDIA driver cannot be used: " + missing_symbol(name, #symbol));
  HVD_CUDA_FUNCTIONS(HVD_LOAD)
#undef HVD_LOAD
  const cuda::Result started = api.init(0);
  if (started == cuda::kNoDevice)
    return cannot<Bad>("there is an NVIDIA driver, but no GPU that this process may use");
  if (started != cuda::kSuccess)
    return cannot<Bad>("the NVIDIA driver does not start: cuInit: " +
                       cuda_error_text(api, started));
  if (const cuda::Result counted = api.device_get_count(&driver->devices);
      counted != cuda::kSuccess)
    return cannot<Bad>("the NVIDIA driver does not count its GPUs: cuDeviceGetCount: " +
                       cuda_error_text(api, counted));
  if (driver->devices <= 0)
    return cannot<Bad>("there is an NVIDIA driver, but no GPU that this process may use");
  return {std::move(driver), {}};
}

Loaded<NcclLibrary> load_nccl(const std::string& file) {
  using Bad = NcclLibrary;
  const std::string variable = kNcclLibraryVariable;
  std::string why;
  void* library = open_library(file.empty() ? kNccl : file, why);
  if (library == nullptr && !file.empty())
    return cannot<Bad>("NCCL cannot be loaded as " + variable + " says: " + why);
  std::string ignored;
  if (library == nullptr) library = open_library(kToolkitNccl, ignored);
  if (library == nullptr)
    return cannot<Bad>("NCCL is not found (" + why + "): install libnccl2, or name its file: " +
                       variable + "=/path/libnccl.so.2");
  auto found = std::make_unique<NcclLibrary>();
  nccl::Api& api = found->api;
  const std::string asked = file.empty() ? kNccl : file;
#define HVD_LOAD(member, symbol, parameters)                                      \
  if (!find_symbol(library, #symbol, api.member))                                 \
    return cannot<Bad>("NCCL cannot be used: " + missing_symbol(asked, #symbol) + \
                       "; name another by " + variable);
  HVD_NCCL_BASE_FUNCTIONS(HVD_LOAD)
  found->path = file_of(api.get_version, asked);
  if (api.get_version(&found->version) != nccl::success)
    return cannot<Bad>("NCCL does not tell its version: " + found->path);
  if (found->version < nccl::kMinVersion)
    return cannot<Bad>("NCCL is too old: " + found->path + " is " +
                       nccl_version_text(found->version) + ", and " +
                       nccl_version_text(nccl::kMinVersion) +
                       " or newer is needed; install libnccl2, or name another by " + variable);
  HVD_NCCL_FUNCTIONS(HVD_LOAD)
  HVD_NCCL_TEXT_FUNCTIONS(HVD_LOAD)
#undef HVD_LOAD
#define HVD_LOAD(member, symbol, parameters) find_symbol(library, #symbol, api.member);
  HVD_NCCL_OPTIONAL_FUNCTIONS(HVD_LOAD)
#undef HVD_LOAD
  return {std::move(found), {}};
}

}  // namespace hvdrun
