// The names of an optimizer's parameters in errors, for the stall inspector and in the timeline.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>
#include <hvd/torch.h>

namespace hvdrun {

class ParameterNames {
 public:
  // Throws Error(invalid_argument) when `named` has some of `parameters` and not all of them.
  ParameterNames(const std::vector<at::Tensor>& parameters,
                 const torch::OrderedDict<std::string, at::Tensor>& named);

  // "fc1.weight"; without names its place, counted from 0: "parameter 3".
  std::string of(const at::Tensor& parameter) const;
  // "fc2.bias, fc2.weight, fc1.bias and 3 more"
  std::string of_all(const std::vector<at::Tensor>& parameters) const;

 private:
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
};

}  // namespace hvdrun
