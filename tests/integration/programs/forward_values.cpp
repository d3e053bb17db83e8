// forward_values DIR: writes a file for every lab model, DIR/NAME, that torch.load() of Python
// reads: its weights, an input, and what our code makes of it. forward_values.py builds the models
// anew.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "worker/labs/models/model.h"

namespace hvdrun {
namespace {

using Values = c10::Dict<std::string, torch::Tensor>;

// Small ones of the same layers where the whole net would take long.
ModelShape small(const ModelInfo& info) {
  const std::string name = info.name;
  ModelShape shape = info.shape;
  shape.dropout = 0;  // Python's generator would drop others
  if (name == "wrn-16-10") shape.width = 2;
  if (name == "resnet50" || name == "artists-resnet" || name == "alexnet-owt") shape.width = 16;
  if (name == "artists-resnet") shape.classes = 7;
  return shape;
}

torch::Tensor some_input(const LabModel& model) {
  torch::Tensor input = model.example(6);
  if (input.dtype() == torch::kLong) {
    // Sentences of several lengths: zeros fill them up.
    input.random_(1, 100'000);
    for (std::int64_t i = 0; i < input.size(0); ++i) input[i].slice(0, 3 * i + 1).zero_();
    return input;
  }
  return input.size(2) > 100 ? torch::randn({6, 3, 96, 128}) : torch::randn_like(input);
}

void write(const ModelInfo& info, const std::string& folder) {
  const std::shared_ptr<LabModel> model = info.make(small(info));
  Values values;
  for (const auto& item : model->named_parameters())
    values.insert("state/" + item.key(), item.value().detach().clone());
  for (const auto& item : model->named_buffers())
    values.insert("state/" + item.key(), item.value().clone());

  const torch::Tensor input = some_input(*model);
  model->train();
  const torch::Tensor output = model->forward(input);
  const std::int64_t classes = output.size(1);
  const torch::Tensor labels = torch::arange(input.size(0)).remainder(classes == 1 ? 2 : classes);
  const torch::Tensor loss = model->loss(output, labels);
  loss.backward();
  values.insert("input", input);
  values.insert("labels", labels);
  values.insert("output", output.detach());
  values.insert("loss", loss.detach());
  const torch::Tensor penalty = model->penalty();
  values.insert("penalty", penalty.defined() ? penalty.detach() : torch::zeros({}));
  for (const auto& item : model->named_parameters())
    values.insert("gradient/" + item.key(), item.value().grad());
  model->eval();
  const torch::NoGradGuard no_grad;
  values.insert("output of evaluation", model->forward(input));
  values.insert("predicted", model->predict(output));

  const std::vector<char> bytes = torch::pickle_save(values);
  std::ofstream(folder + "/" + info.name, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace
}  // namespace hvdrun

int main(int count, char** arguments) {
  if (count != 2) return 64;
  try {
    torch::manual_seed(4);
    for (const hvdrun::ModelInfo& info : hvdrun::models()) hvdrun::write(info, arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
