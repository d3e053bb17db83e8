#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>

#include <hvd/torch.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "worker/hvd/torch/adasum_step.h"
#include "worker/hvd/torch/gradient_buckets.h"
#include "worker/hvd/torch/local_gradients.h"
#include "worker/hvd/torch/parameter_names.h"
#include "worker/hvd/torch/same_layout.h"
#include "worker/hvd/torch/sparse_gradients.h"
#include "worker/hvd/torch/step_timeline.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

using torch::autograd::FunctionPostHook;
using torch::autograd::FunctionPreHook;
using torch::autograd::Node;
using torch::autograd::variable_list;

// The common part of an optimizer and its hooks. A graph that is still around may run a hook after
// the optimizer is gone. It may hold a hook in use while the optimizer takes it off.
struct HookTarget {
  GradientBuckets* buckets;  // null once the optimizer is gone
  StepTimeline timeline{};
};

// For the timeline: this is within a backward().
void note_backward(const std::shared_ptr<HookTarget>& target) {
  if (!target->timeline.begin_backward()) return;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [target] { target->timeline.end_backward(); });
}

class BeforeAccumulate final : public FunctionPreHook {
 public:
  BeforeAccumulate(std::shared_ptr<HookTarget> target, std::size_t parameter)
      : target_(std::move(target)), parameter_(parameter) {}
  variable_list operator()(const variable_list& grads) override {
    if (target_->buckets == nullptr) return grads;
    note_backward(target_);
    target_->buckets->note_backward(parameter_);
    return grads;
  }

 private:
  std::shared_ptr<HookTarget> target_;
  std::size_t parameter_;
};

class AfterAccumulate final : public FunctionPostHook {
 public:
  AfterAccumulate(std::shared_ptr<HookTarget> target, std::size_t parameter)
      : target_(std::move(target)), parameter_(parameter) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    if (target_->buckets != nullptr) target_->buckets->note_ready(parameter_);
    return outputs;
  }

 private:
  std::shared_ptr<HookTarget> target_;
  std::size_t parameter_;
};

// The two hooks on one parameter's gradient accumulator. The parameter refers to its accumulator
// weakly, so it must be held, or the next forward makes another one without hooks.
class AccumulatorHooks {
 public:
  AccumulatorHooks(const at::Tensor& parameter, const std::shared_ptr<HookTarget>& target,
                   std::size_t index)
      : accumulator_(torch::autograd::impl::grad_accumulator(parameter)) {
    auto before = std::make_unique<BeforeAccumulate>(target, index);
    before_ = before.get();
    accumulator_->add_pre_hook(std::move(before));
    after_ = accumulator_->add_post_hook(std::make_unique<AfterAccumulate>(target, index));
  }
  ~AccumulatorHooks() {
    if (!accumulator_) return;  // moved from
    accumulator_->del_post_hook(after_);
    auto& hooks = accumulator_->pre_hooks();
    hooks.erase(std::remove_if(hooks.begin(), hooks.end(),
                               [&](const auto& hook) { return hook.get() == before_; }),
                hooks.end());
  }
  AccumulatorHooks(AccumulatorHooks&&) noexcept = default;
  AccumulatorHooks& operator=(AccumulatorHooks&&) = delete;

 private:
  std::shared_ptr<Node> accumulator_;
  FunctionPreHook* before_ = nullptr;
  std::uintptr_t after_ = 0;
};

using TensorSet = std::unordered_set<const c10::TensorImpl*>;

bool is_trained(const at::Tensor& parameter) {
  // An empty one has no gradient to speak of.
  return parameter.defined() && parameter.requires_grad() && parameter.numel() != 0;
}

// In the optimizer's order, each once.
std::vector<at::Tensor> trained_parameters(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  TensorSet seen;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (is_trained(parameter) && seen.insert(parameter.unsafeGetTensorImpl()).second) {
        parameters.push_back(parameter);
      }
    }
  }
  return parameters;
}

TensorSet set_of(const std::vector<at::Tensor>& parameters) {
  TensorSet set;
  for (const at::Tensor& parameter : parameters) set.insert(parameter.unsafeGetTensorImpl());
  return set;
}

// Those of `all` that `some` has, or has not.
std::vector<at::Tensor> parameters_in(const std::vector<at::Tensor>& all, const TensorSet& some,
                                      bool has) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& parameter : all)
    if ((some.count(parameter.unsafeGetTensorImpl()) != 0) == has) found.push_back(parameter);
  return found;
}

// Those of the option, in the optimizer's order.
std::vector<at::Tensor> trained_of(const std::string& option,
                                   const std::vector<at::Tensor>& parameters,
                                   const std::vector<at::Tensor>& some) {
  std::vector<at::Tensor> found = parameters_in(parameters, set_of(some), true);
  if (found.size() != some.size())
    invalid_tensor("DistributedOptimizer: " + option +
                   " has a tensor that the optimizer does not train");
  return found;
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

class DistributedOptimizer::Impl {
 public:
  Impl(torch::optim::Optimizer& inner, const DistributedOptimizerOptions& options)
      : inner_(inner),
        parameters_(hvdrun::trained_parameters(inner)),
        known_(hvdrun::set_of(parameters_)),
        options_(options),
        sparse_(hvdrun::trained_of("sparse", parameters_, options.sparse), options),
        local_(hvdrun::trained_of("local", parameters_, options.local), options) {
    const hvdrun::ParameterNames names(parameters_, options.named_parameters);
    const auto agreed_name = [&] {
      std::string name = hvdrun::confirm_same_layout(hvdrun::layout_of(parameters_, names, options),
                                                     options.process_set);
      target_->timeline.set_name(name);
      return name;
    };
    if (options.op == ReduceOp::adasum) {
      adasum_.emplace(parameters_, options);
      adasum_->set_name(agreed_name());
      return;
    }
    const std::vector<at::Tensor> dense = hvdrun::parameters_in(
        hvdrun::parameters_in(parameters_, hvdrun::set_of(options.sparse), false),
        hvdrun::set_of(options.local), false);
    buckets_.emplace(dense, names, options);
    target_->buckets = &*buckets_;
    const std::string name = agreed_name();
    buckets_->set_name(name);
    sparse_.set_name(name);
    hooks_.reserve(dense.size());
    for (std::size_t i = 0; i < dense.size(); ++i) hooks_.emplace_back(dense[i], target_, i);
  }
  ~Impl() {
    target_->buckets = nullptr;
    target_->timeline.end_backward();  // of one that has thrown
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void zero_grad(bool set_to_none) {
    target_->timeline.end_backward();
    if (!buckets_) return hvdrun::zero_gradients(parameters_, set_to_none);
    // All that other ranks may wait for in step(), or nothing: they take the buckets first.
    const bool begun = buckets_->empty() ? sparse_.has_begun() : buckets_->has_begun();
    buckets_->zero(set_to_none, begun);
    sparse_.zero(begun);
    local_.zero(set_to_none);
  }

  void synchronize() {
    check_parameters();
    if (!buckets_) return;
    target_->timeline.end_backward();
    const hvdrun::StepTimeline::Span span(target_->timeline, Activity::synchronize);
    buckets_->finish();
    sparse_.finish();
    local_.finish();
  }

  torch::Tensor step() {
    synchronize();
    const hvdrun::StepTimeline::Span span(target_->timeline, Activity::step);
    hvd::elastic::catch_up();
    if (adasum_) {
      torch::Tensor loss = adasum_->take(inner_);
      adasum_->next_round();
      return loss;
    }
    torch::Tensor loss = inner_.step();
    buckets_->next_round();
    sparse_.next_round();
    local_.next_round();
    return loss;
  }

  torch::optim::Optimizer& optimizer() { return inner_; }
  const DistributedOptimizerOptions& options() const { return options_; }

 private:
  // A parameter that joined later would be trained by each rank on its own.
  void check_parameters() const {
    bool same = true;
    for (const auto& group : inner_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        same = same && (!hvdrun::is_trained(parameter) ||
                        known_.count(parameter.unsafeGetTensorImpl()) != 0);
      }
    }
    if (same) return;
    throw Error(ErrorCode::invalid_argument,
                "DistributedOptimizer: the optimizer has got new parameters (added, replaced, or "
                "made to require gradients); make a new DistributedOptimizer for it");
  }

  torch::optim::Optimizer& inner_;
  std::vector<at::Tensor> parameters_;
  hvdrun::TensorSet known_;
  const DistributedOptimizerOptions options_;
  hvdrun::SparseGradients sparse_;
  hvdrun::LocalGradients local_;
  // One of the two.
  std::optional<hvdrun::GradientBuckets> buckets_;
  std::optional<hvdrun::AdasumStep> adasum_;
  const std::shared_ptr<hvdrun::HookTarget> target_ =
      std::make_shared<hvdrun::HookTarget>(hvdrun::HookTarget{nullptr});
  std::vector<hvdrun::AccumulatorHooks> hooks_;
};

DistributedOptimizer::DistributedOptimizer(torch::optim::Optimizer& optimizer,
                                           const DistributedOptimizerOptions& options) {
  try {
    impl_ = std::make_unique<Impl>(optimizer, options);
  } catch (const Error& error) {
    // Not one of confirm_same_layout(), which all ranks know of.
    if (error.code() == ErrorCode::invalid_argument)
      hvdrun::refuse_layout(error.what(), options.process_set);
    throw;
  }
}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::zero_grad(bool set_to_none) { impl_->zero_grad(set_to_none); }
void DistributedOptimizer::synchronize() { impl_->synchronize(); }
torch::Tensor DistributedOptimizer::step() { return impl_->step(); }
torch::optim::Optimizer& DistributedOptimizer::optimizer() { return impl_->optimizer(); }
const DistributedOptimizerOptions& DistributedOptimizer::options() const {
  return impl_->options();
}

}  // namespace hvd
