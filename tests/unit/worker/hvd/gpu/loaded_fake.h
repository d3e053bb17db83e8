// The fake driver and NCCL of this process, as it loads them.
#pragma once

#include <cstdlib>

#include <dlfcn.h>

#include "tests/unit/worker/hvd/gpu/fake_gpu.h"

namespace hvdrun::test {

inline const char* fake_file() {
  const char* const file = std::getenv("HVD_TEST_FAKE_GPU");
  return file != nullptr ? file : "";
}

// The fake's switches, as they are at the start of a process.
inline FakeGpu& fake() {
  using Get = FakeGpu* (*)();
  static const Get get =
      reinterpret_cast<Get>(::dlsym(::dlopen(fake_file(), RTLD_NOW | RTLD_LOCAL), "fake_gpu"));
  return *get();
}

}  // namespace hvdrun::test
