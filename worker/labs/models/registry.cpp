#include "worker/labs/models/registry.h"

#include <array>

namespace hvdrun {
namespace {

struct Entry {
  const char* name;
  std::shared_ptr<ImageModel> (*make)(const ModelOptions&);
};

constexpr std::array<Entry, 2> kModels = {{
    {"mnist-cnn", make_mnist_cnn},
    {"mnist-linear", make_mnist_linear},
}};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(kModels.size());
  for (const Entry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

std::shared_ptr<ImageModel> make_model(const std::string& name, const ModelOptions& options) {
  for (const Entry& entry : kModels) {
    if (name == entry.name) return entry.make(options);
  }
  return nullptr;
}

}  // namespace hvdrun
