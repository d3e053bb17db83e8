#include "worker/hvd/torch/parameter_names.h"

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {

ParameterNames::ParameterNames(const std::vector<at::Tensor>& parameters,
                               const torch::OrderedDict<std::string, at::Tensor>& named) {
  std::unordered_map<const c10::TensorImpl*, std::string> given;
  for (const auto& item : named) given.emplace(item.value().unsafeGetTensorImpl(), item.key());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const c10::TensorImpl* const parameter = parameters[i].unsafeGetTensorImpl();
    const auto found = given.find(parameter);
    if (found == given.end() && !named.is_empty())
      invalid_tensor("DistributedOptimizer: named_parameters has no name for parameter " +
                     std::to_string(i) + " of the optimizer, " +
                     at::toString(parameters[i].scalar_type()) + " of " +
                     std::to_string(parameters[i].numel()) +
                     " elements; pass module->named_parameters() of all modules that it trains");
    names_[parameter] =
        found == given.end() ? "parameter " + std::to_string(i) : std::move(found->second);
  }
}

std::string ParameterNames::of(const at::Tensor& parameter) const {
  const auto found = names_.find(parameter.unsafeGetTensorImpl());
  return found == names_.end() ? "a tensor that the optimizer does not train" : found->second;
}

std::string ParameterNames::of_all(const std::vector<at::Tensor>& parameters) const {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < parameters.size() && i < kShown; ++i) {
    if (i != 0) text += ", ";
    text += of(parameters[i]);
  }
  if (parameters.size() > kShown)
    text += " and " + std::to_string(parameters.size() - kShown) + " more";
  return text;
}

}  // namespace hvdrun
