#include "worker/labs/models/parameter_count.h"

#include <exception>

#include "worker/labs/models/failed_layer.h"

namespace hvdrun {
namespace {

// All but the dropout, which no parameter depends on.
bool has_own_shape(const ModelInfo& info, const ModelShape& shape) {
  return shape.depth == info.shape.depth && shape.width == info.shape.width &&
         shape.classes == info.shape.classes && shape.words == info.shape.words;
}

}  // namespace

std::int64_t count_parameters(const LabModel& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::string wrong_count(const ModelInfo& info, const ModelShape& shape, LabModel& model) {
  const std::int64_t count = count_parameters(model);
  if (count == info.parameters || !has_own_shape(info, shape)) return "";
  try {
    const torch::NoGradGuard no_grad;
    const bool was_training = model.is_training();
    model.eval();
    checked_forward(model, model.example(1));
    model.train(was_training);
  } catch (const std::exception& error) {
    return error.what();
  }
  return std::string(info.name) + ": its ModelInfo says " + std::to_string(info.parameters) +
         " parameters, its layers have " + std::to_string(count) + "; mend whichever is wrong";
}

}  // namespace hvdrun
