#include "worker/hvd/gpu/kernels.h"

#include <memory>

#include <dlfcn.h>

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {
namespace {

constexpr const char* kKernels = "libhvd_cuda.so";

// In the folder of the file that has this very function.
std::string beside_us() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&beside_us), &info) == 0 || info.dli_fname == nullptr)
    return kKernels;
  const std::string own = info.dli_fname;
  const auto slash = own.rfind('/');
  return slash == std::string::npos ? kKernels : own.substr(0, slash + 1) + kKernels;
}

void* open_kernels(const std::string& file, std::string& why) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): a thread has its own
    why = one_line(text != nullptr ? text : file);
  }
  return library;
}

}  // namespace

Loaded<GpuKernels> load_gpu_kernels(const std::string& file) {
  std::string why;
  void* library = open_kernels(file.empty() ? beside_us() : file, why);
  if (library == nullptr && file.empty()) library = open_kernels(kKernels, why);
  if (library == nullptr)
    return {nullptr,
            "hvdrun's GPU kernels are not installed (" + why + "): they are built where nvcc is"};
  const auto version = reinterpret_cast<int (*)()>(::dlsym(library, "hvd_cuda_abi_version"));
  if (version == nullptr || version() != HVD_CUDA_ABI_VERSION)
    return {nullptr, std::string(kKernels) + " is of another version of hvdrun (interface " +
                         (version == nullptr ? "unknown" : std::to_string(version())) + ", not " +
                         std::to_string(HVD_CUDA_ABI_VERSION) + "); install both from one build"};
  auto kernels = std::make_unique<GpuKernels>();
  const char* missing = nullptr;
#define HVD_LOAD_KERNEL(member, symbol, parameters)                                         \
  kernels->member = reinterpret_cast<decltype(kernels->member)>(::dlsym(library, #symbol)); \
  if (kernels->member == nullptr) missing = #symbol;
  HVD_CUDA_KERNELS(HVD_LOAD_KERNEL)
  HVD_LOAD_KERNEL(adasum_scratch, hvd_cuda_adasum_scratch, ())
  HVD_LOAD_KERNEL(error_text, hvd_cuda_error_text, ())
#undef HVD_LOAD_KERNEL
  if (missing != nullptr) return {nullptr, std::string(kKernels) + " has no " + missing};
  return {std::move(kernels), {}};
}

}  // namespace hvdrun
