// Where a rank computes: --device.
#pragma once

#include <string>

#include <ATen/ATen.h>

namespace hvdrun {

// `name` is one of device_names() in train_options.h. hvd::init() has been called: auto takes the
// GPU of the local rank that it has found, where LibTorch can use one, and the CPU elsewhere. When
// there is none for cuda, `error` says so.
at::Device choose_device(const std::string& name, std::string& error);

// `tensor` on `device`. To a GPU it goes through pinned memory, and the host does not wait: what is
// queued on the current stream afterwards finds it there. Where it is already, nothing is copied.
at::Tensor on_device(const at::Tensor& tensor, at::Device device);

}  // namespace hvdrun
