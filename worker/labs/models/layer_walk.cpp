// LibTorch has no forward hooks in C++, and a model's code should not know of being watched. But
// the graph that autograd keeps of a forward pass says what was done, in which order, with which
// parameters: the node that a module's parameters flow into is that module at work.
#include "worker/labs/models/layer_walk.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "worker/labs/models/failed_layer.h"

namespace hvdrun {
namespace {

using torch::autograd::Node;

// "torch::nn::Conv2dImpl" is a Conv2d.
std::string kind_of(const torch::nn::Module& module) {
  std::string name = module.name();
  name.erase(0, name.rfind(':') + 1);
  const auto suffix = name.rfind("Impl");
  if (suffix != std::string::npos && suffix + 4 == name.size()) name.erase(suffix);
  return name;
}

// Empty: no pooling. Pooling to one pixel is a mean to LibTorch.
std::string pooling_of(const std::string& operation) {
  if (operation.find("MaxPool") != std::string::npos) return "MaxPool2d";
  if (operation.find("AvgPool") != std::string::npos) return "AvgPool2d";
  return operation.rfind("Mean", 0) == 0 ? "AvgPool2d" : "";
}

bool is_transpose(const Node& node) { return node.name().rfind("TBackward", 0) == 0; }

// All nodes behind `last` in the order in which they were made.
std::vector<Node*> operations_before(const torch::Tensor& last) {
  std::vector<Node*> found;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> open = {last.grad_fn().get()};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    found.push_back(node);
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  std::sort(found.begin(), found.end(),
            [](const Node* a, const Node* b) { return a->sequence_nr() < b->sequence_nr(); });
  return found;
}

class ParameterOwners {
 public:
  explicit ParameterOwners(const LabModel& model) {
    for (const auto& item : model.named_modules("", /*include_self=*/false)) {
      Layer layer{item.key(), kind_of(*item.value()), {}, 0};
      const auto parameters = item.value()->parameters(/*recurse=*/false);
      for (const torch::Tensor& parameter : parameters) {
        layer.parameters += parameter.numel();
        owners_.emplace(parameter.unsafeGetTensorImpl(), layers_.size());
      }
      layers_.push_back(std::move(layer));
    }
  }

  // Null where no parameter flows into `node`.
  Layer* of(const Node& node) {
    for (const auto& edge : node.next_edges()) {
      const Node* source = edge.function.get();
      // A linear layer takes its weight transposed.
      if (source != nullptr && is_transpose(*source)) source = source->next_edge(0).function.get();
      const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(source);
      if (leaf == nullptr) continue;
      const auto owner = owners_.find(leaf->variable.unsafeGetTensorImpl());
      if (owner != owners_.end()) return &layers_[owner->second];
    }
    return nullptr;
  }

 private:
  std::vector<Layer> layers_;
  std::unordered_map<const at::TensorImpl*, std::size_t> owners_;
};

}  // namespace

std::vector<Layer> layers_of(LabModel& model, const torch::Tensor& batch) {
  // Batch normalisation could not learn from a batch of one.
  model.eval();
  const torch::AutoGradMode keep_graph(true);
  const torch::Tensor output = checked_forward(model, batch);
  ParameterOwners owners(model);
  std::vector<Layer> layers;
  for (const Node* node : operations_before(output)) {
    if (is_transpose(*node) || node->num_inputs() == 0) continue;
    Layer layer;
    if (Layer* owner = owners.of(*node)) {
      layer = *owner;
      owner->parameters = 0;
    } else {
      layer.kind = pooling_of(node->name());
      if (layer.kind.empty()) continue;
    }
    // A gradient that comes back into a node has the shape of what it gave; the shape itself is
    // private.
    layer.shape = node->input_metadata(0).zeros_like().sizes().vec();
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace hvdrun
