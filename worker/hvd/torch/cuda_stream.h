// The only place that knows LibTorch's CUDA part, which not every LibTorch has.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

namespace hvdrun {

// True: this library was built with a LibTorch for CUDA.
bool knows_cuda();

// The cudaStream_t that LibTorch queues this thread's work for the GPU on. Throws
// Error(unavailable) where knows_cuda() is false.
void* current_cuda_stream(std::int8_t device);

// The stream of its GPU that this thread's work is queued on; none for a tensor on the CPU.
std::optional<c10::Stream> current_stream(const at::Tensor& tensor);

// Later work of this thread comes after what is on `submitted` by now. hvd::synchronize() puts the
// end of an operation there, and whoever waits for it may use another stream.
void continue_after(const std::optional<c10::Stream>& submitted);

// After an error a GPU may still read and write the tensor until hvd::shutdown(): it is kept for
// ever. Nothing for one on the CPU.
void keep_for_gpu(const at::Tensor& tensor);

}  // namespace hvdrun
