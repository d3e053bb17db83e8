// LibTorch tells of every operator that begins, with what it is given, and that it has ended, also
// by an exception. A layer is found by its parameters, as in layer_walk.cpp.
#include "worker/labs/failed_layer.h"

#include <exception>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <vector>

#include <ATen/record_function.h>

#include "common/printable.h"

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

struct Operation : at::ObserverContext {
  std::string name;   // "max_pool2d"
  std::string layer;  // empty: none of its own
  std::string given;  // the shape of the first tensor that is no parameter
  int exceptions = 0;
};

class Watch {
 public:
  explicit Watch(const LabModel& model) : names_(names_of(model)) {
    watching = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begun, &ended)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    at::removeCallback(handle_);
    watching = nullptr;
  }

  // Empty: no operator has failed.
  std::string text() const {
    if (failed_.name.empty()) return "";
    const std::string given = failed_.given.empty() ? "" : " is given " + failed_.given;
    if (!failed_.layer.empty()) return "layer " + failed_.layer + given;
    return failed_.name + (passed_.empty() ? "" : " behind layer " + passed_) + given;
  }

 private:
  static std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& function) {
    auto operation = std::make_unique<Operation>();
    operation->exceptions = std::uncaught_exceptions();
    if (watching != nullptr) watching->look_at(function, *operation);
    return operation;
  }

  static void ended(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
    auto* const operation = dynamic_cast<Operation*>(context);
    if (watching == nullptr || operation == nullptr) return;
    if (std::uncaught_exceptions() > operation->exceptions)
      watching->add_failed(*operation);
    else if (!operation->layer.empty())
      watching->passed_ = operation->layer;
  }

  void look_at(const at::RecordFunction& function, Operation& operation) const {
    const std::string name = function.name();
    operation.name = name.substr(name.rfind(':') + 1);  // of "aten::max_pool2d"
    for (const c10::IValue& input : function.inputs()) {
      if (!input.isTensor()) continue;
      const at::Tensor& tensor = input.toTensor();
      if (!tensor.defined()) continue;
      const auto found = names_.find(tensor.unsafeGetTensorImpl());
      if (found != names_.end()) {
        operation.layer = found->second;
      } else if (operation.given.empty()) {
        std::ostringstream shape;
        shape << tensor.sizes();
        operation.given = shape.str();
      }
    }
  }

  // From the innermost outwards. The outermost that has a layer is the one that the model calls.
  void add_failed(const Operation& operation) {
    if (!operation.layer.empty() || failed_.layer.empty()) failed_ = operation;
  }

  static thread_local Watch* watching;

  const LayerNames names_;
  at::CallbackHandle handle_ = 0;
  Operation failed_;
  std::string passed_;
};

thread_local Watch* Watch::watching = nullptr;

}  // namespace

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

std::string words_of(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return first_of(of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
}

}  // namespace hvdrun
