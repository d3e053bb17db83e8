// The lab models by name. A new model is one file beside this one, a line here and a line in
// registry.cpp. No LibTorch in here, so that the command line can be checked without it.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class ImageModel;

struct ModelOptions {
  double dropout = 0.5;
};

std::vector<std::string> model_names();
// Weights come from torch's generator. Null for an unknown name.
std::shared_ptr<ImageModel> make_model(const std::string& name, const ModelOptions& options);

std::shared_ptr<ImageModel> make_mnist_cnn(const ModelOptions& options);
std::shared_ptr<ImageModel> make_mnist_linear(const ModelOptions& options);

}  // namespace hvdrun
