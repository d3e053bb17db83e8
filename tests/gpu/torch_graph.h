// A step of LibTorch in a CUDA graph, with hvd's operations in it.
#pragma once

#include <string>

#include <torch/torch.h>

namespace hvdrun::test {

// The reason why there can be none: the CPU, or a LibTorch that was built into this without CUDA.
// Empty: there can.
std::string no_torch_graph(const at::Device& device);
// Trains a line by a captured step and by one that is not, and expects the same; prints what a
// launch takes. Throws std::runtime_error with what is wrong.
void check_torch_graph(const at::Device& device);

}  // namespace hvdrun::test
