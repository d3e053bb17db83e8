#include "worker/labs/train/nan_trace.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/record_function.h>

namespace hvdrun {
namespace {

const void* memory_of(const at::Tensor& tensor) { return tensor.storage().data(); }

bool is_dense_float(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.is_floating_point() &&
         tensor.has_storage() && tensor.numel() > 0;
}

bool is_finite(const at::Tensor& tensor) {
  return !is_dense_float(tensor) || at::isfinite(tensor).all().item<bool>();
}

// "conv1.weight" is of conv1; a parameter of the model itself has its own name.
std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

// Their result has perhaps not been written yet.
bool only_gives_memory(const std::string& operation) {
  for (const char* const part : {"empty", "resize", "strided", "set_"})
    if (operation.find(part) != std::string::npos) return true;
  return false;
}

template <typename Function>
void for_each_tensor(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) function(tensor);
  }
}

}  // namespace

// Callbacks are plain functions, and a GPU's backward pass runs on a thread of LibTorch's.
class NanTrace::State {
 public:
  explicit State(const torch::nn::Module& model) : model_(model) {
    for (const auto& item : model.named_parameters())
      owners_.emplace(memory_of(item.value()), layer_of(item.key()));
    active = this;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&State::started, &State::ended)
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    at::removeCallback(handle_);
    active = nullptr;
  }

  void begin_step(const at::Tensor& inputs) {
    const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(mutex_);
    layer_.clear();
    // The find of the step before, its update included.
    const std::string earlier = std::exchange(found_, {});
    for (const auto& item : model_.named_parameters()) {
      if (is_finite(item.value())) continue;
      found_ = earlier.empty()       ? "before this step: " + item.key() + " is not finite"
               : earlier_ == earlier ? earlier
                                     : "in the step before, " + earlier;
      earlier_ = found_;
      break;
    }
    if (found_.empty() && !is_finite(inputs)) found_ = "in the batch itself";
  }

  std::string found() const {
    const std::lock_guard lock(mutex_);
    return found_;
  }

 private:
  // The input of an operation.
  struct Given final : at::ObserverContext {
    std::string layer;  // whose weights they were; otherwise the last one before
    bool is_direct = false;
    std::vector<const void*> memory;
  };

  static std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& operation) {
    return active == nullptr ? nullptr : active->start(operation);
  }
  static void ended(const at::RecordFunction& operation, at::ObserverContext* context) {
    if (active != nullptr && context != nullptr)
      active->end(operation, *static_cast<Given*>(context));
  }

  std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& operation) {
    auto given = std::make_unique<Given>();
    const std::lock_guard lock(mutex_);
    for (const c10::IValue& value : operation.inputs())
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        if (!is_dense_float(tensor)) return;
        given->memory.push_back(memory_of(tensor));
        const auto owner = owners_.find(memory_of(tensor));
        if (owner == owners_.end()) return;
        layer_ = owner->second;
        given->is_direct = true;
      });
    given->layer = layer_;
    return given;
  }

  void end(const at::RecordFunction& operation, const Given& given) {
    const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(mutex_);
    if (!found_.empty() || only_gives_memory(operation.name())) return;
    bool finite = true;
    const std::string name = operation.name();
    // A view of what was given is no result; what ends in _ writes there.
    const auto is_view = [&](const at::Tensor& tensor) {
      return !name.empty() && name.back() != '_' && is_dense_float(tensor) &&
             std::find(given.memory.begin(), given.memory.end(), memory_of(tensor)) !=
                 given.memory.end();
    };
    for (const c10::IValue& value : operation.outputs())
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        finite = finite && (is_view(tensor) || is_finite(tensor));
      });
    if (finite) return;
    if (given.is_direct) {
      found_ = "in the layer " + given.layer + " (" + name + ")";
    } else {
      found_ =
          (given.layer.empty() ? "before the first layer" : "behind the layer " + given.layer) +
          " (" + name + ")";
    }
  }

  static inline State* active = nullptr;
  const torch::nn::Module& model_;
  std::unordered_map<const void*, std::string> owners_;
  at::CallbackHandle handle_ = 0;
  mutable std::mutex mutex_;
  std::string layer_;  // the last whose weights were worked with
  std::string found_;
  std::string earlier_;  // what found_ says of steps before
};

NanTrace::NanTrace(const torch::nn::Module& model) : state_(std::make_unique<State>(model)) {}
NanTrace::~NanTrace() = default;
void NanTrace::begin_step(const at::Tensor& inputs) { state_->begin_step(inputs); }
std::string NanTrace::found() const { return state_->found(); }

}  // namespace hvdrun
