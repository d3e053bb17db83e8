// The lab models by name. A new model is one file beside this one and a line in models.def
// (docs/adding-a-model.md). No LibTorch in here, so that the command line can be checked without
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/labs/batches/data_format.h"
#include "worker/labs/models/recipe.h"

namespace hvdrun {

class LabModel;

// The parts of a model that the command line may change.
struct ModelShape {
  double dropout = 0;        // 0: the model has none
  std::int64_t depth = 0;    // in layers; 0: the model has one depth only
  std::int64_t width = 0;    // as a factor, or channels of the first layer; likewise
  std::int64_t classes = 0;  // 0: the model has one number only, or that of its data
  std::int64_t words = 0;    // rows of its table of word vectors; 0: it reads no words
};

struct ModelInfo {
  const char* name;
  const char* summary;
  DataFormat data;
  const char* source;
  // From the source or counted on paper: the tests compare it with what the layers sum up to.
  std::int64_t parameters;
  // Weights come from torch's generator.
  std::shared_ptr<LabModel> (*make)(const ModelShape& shape);
  ModelShape shape = {};
  Recipe recipe = {};
  // The fault of a depth or a width; empty: nothing. Null: any will do.
  std::string (*refuse)(const ModelShape& shape) = nullptr;
  std::int64_t smallest_image = 0;  // rows and columns of a photograph; 0: any will do
  bool classes_of_data = false;     // there are as many as the data has
  bool reports_classes = false;     // at the end, how well each is found
};

const std::vector<ModelInfo>& models();
// Null for an unknown name.
const ModelInfo* find_model(const std::string& name);
// "mnist-cnn, mnist-linear, ..."
std::string model_names();
// Null for an unknown name. Without `dropout` the model has its own.
std::shared_ptr<LabModel> make_model(const std::string& name, std::optional<double> dropout = {});
// The text of `train --list`: a line for each model below a line of titles.
std::string list_models();

#define HVD_LAB_MODEL(name) ModelInfo name();
#include "worker/labs/models/models.def"
#undef HVD_LAB_MODEL

}  // namespace hvdrun
