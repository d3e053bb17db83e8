// The kernels that LibTorch takes on this CPU. To be called before LibTorch is used.
#pragma once

#include <cstdlib>

#include <torch/version.h>

namespace hvdrun {

// LibTorch 2.6 of Debian 13 may compute gradients that are NaN with its kernels for AVX-512. A loop
// of 40 lines with the MNIST net and nothing of ours shows it on an AMD EPYC of family 26. Its
// kernels for AVX2 do not. The user's own choice stays.
inline void avoid_wrong_kernels() {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 6
  ::setenv("ATEN_CPU_CAPABILITY", "avx2", 0);  // NOLINT(concurrency-mt-unsafe): no threads yet
#endif
}

}  // namespace hvdrun
