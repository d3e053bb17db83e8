// Where in a step NaN or infinity begins: the first operation whose result is not finite, and the
// layer whose weights it works with. Every operation's result is read, so a step takes several
// times as long. Has not run on a GPU.
#pragma once

#include <memory>
#include <string>

#include <torch/torch.h>

namespace hvdrun {

class NanTrace {
 public:
  // Follows what this thread computes, backward passes that it starts included, until it goes. One
  // at a time. `model` outlives it.
  explicit NanTrace(const torch::nn::Module& model);
  NanTrace(const NanTrace&) = delete;
  NanTrace& operator=(const NanTrace&) = delete;
  ~NanTrace();

  // Forgets the step before. Looks at what the step begins with.
  void begin_step(const at::Tensor& inputs);
  // In words behind "it begins": "in the layer conv1 (aten::convolution)". Empty: all is finite.
  std::string found() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace hvdrun
