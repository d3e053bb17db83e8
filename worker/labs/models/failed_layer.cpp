// LibTorch calls an operator by a list of keys, of which one can be ours: so each passes here, with
// what it is given. A layer is found by its parameters, as in layer_walk.cpp. (RecordFunction,
// which is there to observe operators, has a member more in a build with asserts than in LibTorch's
// own.)
#include "worker/labs/models/failed_layer.h"

#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <hvd/hvd.h>
#include <torch/library.h>

namespace hvdrun {
namespace {

std::string first_of(const std::string& text) { return text.substr(0, text.find('\n')); }

// "conv1, torch::nn::Conv2d(1, 10, ...)" by the parameters.
using LayerNames = std::unordered_map<const at::TensorImpl*, std::string>;

LayerNames names_of(const LabModel& model) {
  LayerNames names;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    std::ostringstream kind;
    item.value()->pretty_print(kind);
    for (const torch::Tensor& parameter : item.value()->parameters(/*recurse=*/false))
      names.emplace(parameter.unsafeGetTensorImpl(),
                    item.key() + ", " + first_of(kind.str()) + ",");
  }
  return names;
}

struct Operation {
  std::string name;   // "max_pool2d"
  std::string layer;  // empty: none of its own
  std::string given;  // the shape of the first tensor that is no parameter, or of a list
};

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream shape;
  shape << tensor.sizes();
  return shape.str();
}

// Nobody else uses it: who has it on asks to see the operators first.
constexpr c10::DispatchKey kWatched = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Sees what the model calls in this thread while it lives, not what that calls in turn.
class Watch {
 public:
  explicit Watch(const LabModel& model) : names_(names_of(model)), on_(kWatched) {
    watching = this;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { watching = nullptr; }

  // Empty: no operator has failed.
  std::string text() const {
    if (failed_.name.empty()) return "";
    const std::string given = failed_.given.empty() ? "" : " is given " + failed_.given;
    if (!failed_.layer.empty()) return "layer " + failed_.layer + given;
    return failed_.name + (passed_.empty() ? "" : " behind layer " + passed_) + given;
  }

  static void call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard off(kWatched);
    if (watching == nullptr) return op.callBoxed(stack);
    const Operation operation = watching->look_at(op, *stack);
    try {
      op.callBoxed(stack);
    } catch (...) {
      watching->failed_ = operation;
      throw;
    }
    if (!operation.layer.empty()) watching->add_passed(operation, *stack);
  }

 private:
  Operation look_at(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const {
    const std::string& name = op.schema().name();
    Operation operation{name.substr(name.rfind(':') + 1), "", ""};  // of "aten::max_pool2d"
    const std::size_t inputs = op.schema().arguments().size();
    for (std::size_t i = stack.size() - inputs; i < stack.size(); ++i) {
      if (stack[i].isTensor()) look_at(stack[i].toTensor(), operation);
      if (!stack[i].isTensorList() || !operation.given.empty()) continue;
      for (const at::Tensor& tensor : stack[i].toTensorVector())
        operation.given += (operation.given.empty() ? "" : " and ") + shape_of(tensor);
    }
    return operation;
  }

  void look_at(const at::Tensor& tensor, Operation& operation) const {
    if (!tensor.defined()) return;
    const auto found = names_.find(tensor.unsafeGetTensorImpl());
    if (found != names_.end())
      operation.layer = found->second;
    else if (operation.given.empty())
      operation.given = shape_of(tensor);
  }

  // A linear layer takes its weight transposed: that is still the weight, and no layer passed.
  void add_passed(const Operation& operation, const torch::jit::Stack& results) {
    if (operation.given.empty() && !results.empty() && results.back().isTensor()) {
      views_.push_back(results.back().toTensor());
      names_.emplace(views_.back().unsafeGetTensorImpl(), operation.layer);
    } else {
      passed_ = operation.layer;
    }
  }

  static thread_local Watch* watching;

  LayerNames names_;
  std::vector<at::Tensor> views_;  // kept, so that nothing else gets their address
  Operation failed_;
  std::string passed_;
  const c10::impl::IncludeDispatchKeyGuard on_;
};

thread_local Watch* Watch::watching = nullptr;

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&Watch::call>());
}

// Without the lines behind the first, which are a backtrace.
std::string words_of(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return first_of(of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
}

// Sends the batch through once more; in evaluation mode, where no rank waits in a normalisation for
// another. `said` alone where it passes now.
std::string failed_layer(LabModel& model, const torch::Tensor& batch, const std::string& said) {
  model.eval();
  const torch::NoGradGuard no_grad;
  const Watch watch(model);
  try {
    model.forward(batch);
  } catch (const std::exception& error) {
    const std::string where = watch.text();
    return where.empty() ? words_of(error) : where + ": " + words_of(error);
  }
  return said;
}

}  // namespace

torch::Tensor checked_forward(LabModel& model, const torch::Tensor& batch) {
  try {
    return model.forward(batch);
  } catch (const hvd::Error&) {
    throw;  // of a collective: no layer's fault
  } catch (const std::exception& error) {
    throw std::runtime_error(failed_layer(model, batch, words_of(error)));
  }
}

torch::Tensor checked_loss(const LabModel& model, const torch::Tensor& output,
                           const torch::Tensor& labels, const torch::Tensor& class_weights,
                           std::int64_t classes) {
  try {
    return model.loss(output, labels, class_weights);
  } catch (const hvd::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error("the model gives " + shape_of(output) + " for " +
                             std::to_string(labels.size(0)) + " samples of " +
                             std::to_string(classes) + " classes: " + words_of(error));
  }
}

}  // namespace hvdrun
