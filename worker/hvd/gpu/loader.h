// Finds the NVIDIA driver and NCCL on this host, at run time. That there is none, or one that
// cannot be used, is no fault here: the reason is a line for the user.
#pragma once

#include <memory>
#include <string>

#include "worker/hvd/gpu/cuda_api.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun {

// The variable that names NCCL's library where the loader would not find it, or another one.
inline constexpr const char* kNcclLibraryVariable = "HVD_NCCL_LIBRARY";

struct CudaDriver {
  cuda::Api api;
  int version = 0;  // 13000: CUDA 13.0
  int devices = 0;  // that this process sees, at least one
};
struct NcclLibrary {
  nccl::Api api;
  int version = 0;   // 22809: 2.28.9
  std::string path;  // of the file
};

template <class T>
struct Loaded {
  std::unique_ptr<const T> value;  // null: it cannot be used
  std::string why;                 // then: the reason, one line
};

// Opens and starts the driver (cuInit, which creates no context). `file` is for tests; empty: the
// one that the loader finds. What has been loaded stays: both have threads.
Loaded<CudaDriver> load_cuda_driver(const std::string& file = {});

// `file` as HVD_NCCL_LIBRARY has it; empty: libnccl.so.2, where the loader finds it (a process that
// has loaded one already, as PyTorch does, gets that one), then in the toolkit's folder.
Loaded<NcclLibrary> load_nccl(const std::string& file = {});

// "12.4", "2.28.9"
std::string cuda_version_text(int version);
std::string nccl_version_text(int version);

}  // namespace hvdrun
