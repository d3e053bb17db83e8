// The only place that knows LibTorch's CUDA part, which not every LibTorch has.
#pragma once

#include <cstdint>

namespace hvdrun {

// Whether this library was built with a LibTorch for CUDA.
bool knows_cuda();

// The cudaStream_t that LibTorch queues this thread's work for the GPU on. Throws
// Error(unavailable) where knows_cuda() is false.
void* current_cuda_stream(std::int8_t device);

}  // namespace hvdrun
