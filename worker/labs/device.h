// Where a rank computes: --device. The GPU path has never run: no LibTorch with CUDA was at hand.
#pragma once

#include <string>

#include <ATen/ATen.h>

namespace hvdrun {

// `name` is one of device_names() in options.h. hvd::init() has been called: auto takes the GPU of
// the local rank that it has found, where LibTorch can use one, and the CPU elsewhere. When there
// is none for cuda, `error` says so.
at::Device choose_device(const std::string& name, std::string& error);

}  // namespace hvdrun
