// Where a rank computes: --device. The GPU path has never run: no LibTorch with CUDA was at hand.
#pragma once

#include <string>

#include <ATen/ATen.h>

namespace hvdrun {

// `name` is one of device_names() in options.h. hvd::init() has been called: auto takes the GPU of
// the local rank that it has found, where LibTorch can use one, and the CPU elsewhere. When there
// is none for cuda, `error` says so.
at::Device choose_device(const std::string& name, std::string& error);

// For a GPU: cuDNN tries its algorithms for each shape of a convolution that is new and keeps the
// fastest. Which one that is may differ from run to run, and with it the last bits of the results.
void let_cudnn_search(at::Device device);

// `tensor` on `device`. To a GPU it goes through pinned memory, and the host does not wait: what is
// queued on the current stream afterwards finds it there. Where it is already, nothing is copied.
at::Tensor on_device(const at::Tensor& tensor, at::Device device);

}  // namespace hvdrun
