#include "worker/labs/models/registry.h"

#include <algorithm>
#include <array>

namespace hvdrun {
namespace {

using Columns = std::array<std::string, 4>;

}  // namespace

const std::vector<ModelInfo>& models() {
  static const std::vector<ModelInfo> all = {
#define HVD_LAB_MODEL(name) name(),
#include "worker/labs/models/models.def"
#undef HVD_LAB_MODEL
  };
  return all;
}

const ModelInfo* find_model(const std::string& name) {
  for (const ModelInfo& model : models()) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

std::string model_names() {
  std::string names;
  for (const ModelInfo& model : models())
    names.append(names.empty() ? "" : ", ").append(model.name);
  return names;
}

std::shared_ptr<LabModel> make_model(const std::string& name, std::optional<double> dropout) {
  const ModelInfo* model = find_model(name);
  if (model == nullptr) return nullptr;
  ModelShape shape = model->shape;
  shape.dropout = dropout.value_or(shape.dropout);
  return model->make(shape);
}

std::string list_models() {
  std::vector<Columns> lines = {{"model", "parameters", "data", "source"}};
  for (const ModelInfo& model : models()) {
    lines.push_back({model.name, std::to_string(model.parameters), model.data.name, model.source});
  }
  std::array<std::size_t, 4> widths{};
  for (const Columns& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Columns& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - line[i].size(), ' ');
      const bool is_number = i == 1;
      if (is_number) text += padding;
      text += line[i];
      const bool is_last = i + 1 == line.size();
      if (!is_number && !is_last) text += padding;
      text += is_last ? "\n" : "  ";
    }
  }
  return text;
}

}  // namespace hvdrun
