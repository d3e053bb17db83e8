#include "worker/labs/report/describe.h"

#include <algorithm>
#include <stdexcept>

#include "worker/labs/base/text_columns.h"
#include "worker/labs/models/layer_walk.h"
#include "worker/labs/models/parameter_count.h"
#include "worker/labs/report/recipe_text.h"

namespace hvdrun {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) {
    text.append(text.empty() ? "[" : ", ").append(std::to_string(size));
  }
  return text + "]";
}

std::string layer_line(const std::string& name, const std::string& kind, const std::string& shape,
                       const std::string& parameters, std::size_t name_width) {
  constexpr std::size_t kKindWidth = 12;  // EmbeddingBag
  constexpr std::size_t kShapeWidth = 18;
  constexpr std::size_t kNumberWidth = 10;
  return left_aligned(name, name_width) + "  " + left_aligned(kind, kKindWidth) + "  " +
         left_aligned(shape, kShapeWidth) + "  " + right_aligned(parameters, kNumberWidth) + "\n";
}

}  // namespace

std::string describe_model(const ModelInfo& info, const ModelShape& shape, const Recipe& recipe,
                           std::int64_t image_size) {
  const auto model = info.make(shape);
  const std::string trouble = wrong_count(info, shape, *model);
  if (!trouble.empty()) throw std::runtime_error(trouble);
  const std::vector<Layer> layers =
      layers_of(*model, info.data.photographs ? at::zeros({1, 3, image_size, image_size})
                                              : model->example(1));
  std::size_t name_width = 5;
  for (const Layer& layer : layers) name_width = std::max(name_width, layer.name.size());
  std::string text = std::string(info.name) + ": " + info.summary + "\ndata: " + info.data.name +
                     "\nsource: " + info.source +
                     "\nrecipe: " + recipe_text(recipe, shape.dropout) + "\n\n" +
                     layer_line("layer", "kind", "output of one", "parameters", name_width);
  for (const Layer& layer : layers) {
    text += layer_line(layer.name.empty() ? "-" : layer.name, layer.kind, shape_text(layer.shape),
                       std::to_string(layer.parameters), name_width);
  }
  return text + layer_line("total", "", "", std::to_string(count_parameters(*model)), name_width);
}

}  // namespace hvdrun
