#include "worker/hvd/torch/gradient_buckets.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include <c10/util/strides.h>

#include "worker/hvd/torch/bucket_memory.h"
#include "worker/hvd/torch/bucket_plan.h"
#include "worker/hvd/torch/cuda_stream.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

std::vector<std::int64_t> gradient_strides(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) return parameter.strides().vec();
  // A slice or an expanded tensor would need other memory than one place per element.
  const auto strides = c10::contiguous_strides(parameter.sizes());
  return {strides.begin(), strides.end()};
}

at::Tensor tensor_over(const std::shared_ptr<void>& memory, std::size_t byte_offset,
                       const at::Tensor& parameter) {
  return at::from_blob(
      static_cast<char*>(memory.get()) + byte_offset, parameter.sizes(),
      gradient_strides(parameter), [memory](void*) {},
      at::TensorOptions().dtype(parameter.scalar_type()).device(parameter.device()));
}

// Memory of the device that the parameters are on. LibTorch's own where that is a GPU, so that its
// allocator knows of it.
std::shared_ptr<void> bucket_memory(std::size_t bytes, const at::Device& device) {
  if (device.is_cpu()) return allocate_bucket_memory(bytes);
  const at::Tensor memory = at::zeros({static_cast<std::int64_t>(bytes)},
                                      at::TensorOptions().dtype(at::kByte).device(device));
  return {memory.data_ptr(), [memory](void*) {}};
}

at::Tensor flat_tensor(const std::shared_ptr<void>& memory, std::size_t elements,
                       at::ScalarType type, const at::Device& device) {
  return at::from_blob(
      memory.get(), {static_cast<std::int64_t>(elements)}, [memory](void*) {},
      at::TensorOptions().dtype(type).device(device));
}

const hvd::DistributedOptimizerOptions& checked(const hvd::DistributedOptimizerOptions& options) {
  if (options.backward_passes_per_step < 1)
    invalid_tensor("DistributedOptimizer: backward_passes_per_step is " +
                   std::to_string(options.backward_passes_per_step) + "; at least 1");
  // A bucket is many tensors, and each would need a sum of its own; AdasumStep has it.
  if (options.op == hvd::ReduceOp::adasum)
    invalid_tensor("DistributedOptimizer: adasum is not for gradients");
  if (options.num_groups < 0)
    invalid_tensor("DistributedOptimizer: num_groups is " + std::to_string(options.num_groups) +
                   "; at least 0");
  if (options.num_groups > 0 && !options.groups.empty())
    invalid_tensor("DistributedOptimizer: num_groups and groups; one of them");
  const double factor = options.gradient_predivide_factor;
  if (!(factor > 0) || !std::isfinite(factor))
    invalid_tensor("DistributedOptimizer: gradient_predivide_factor is " + std::to_string(factor) +
                   "; a finite number above 0");
  if (factor != 1 && options.op != hvd::ReduceOp::average)
    invalid_tensor(
        "DistributedOptimizer: gradient_predivide_factor splits the division of an "
        "average, and op is another one");
  return options;
}

hvd::ReduceOp operation_of(const hvd::DistributedOptimizerOptions& options) {
  return options.gradient_predivide_factor == 1 ? options.op : hvd::ReduceOp::sum;
}

// For a sum over so many ranks.
hvd::ScaleFactors factors_of(const hvd::DistributedOptimizerOptions& options, int ranks) {
  hvd::ScaleFactors factors;
  if (options.average_aggregated_gradients)
    factors.prescale = 1.0 / options.backward_passes_per_step;
  if (options.gradient_predivide_factor == 1) return factors;
  factors.prescale /= options.gradient_predivide_factor;
  factors.postscale = options.gradient_predivide_factor / std::max(ranks, 1);
  return factors;
}

// The group of each parameter.
std::vector<int> groups_of(const std::vector<at::Tensor>& parameters,
                           const hvd::DistributedOptimizerOptions& options) {
  std::vector<int> groups(parameters.size(), kNoGroup);
  // As equal as may be, in the order of the parameters.
  for (std::size_t i = 0; options.num_groups > 0 && i < groups.size(); ++i)
    groups[i] =
        static_cast<int>(i * static_cast<std::size_t>(options.num_groups) / parameters.size());
  for (std::size_t group = 0; group < options.groups.size(); ++group) {
    for (const at::Tensor& member : options.groups[group]) {
      const auto found =
          std::find_if(parameters.begin(), parameters.end(),
                       [&](const at::Tensor& parameter) { return parameter.is_same(member); });
      const std::string where = "DistributedOptimizer: groups[" + std::to_string(group) + "]";
      if (found == parameters.end())
        invalid_tensor(where + " has a tensor that the optimizer does not train");
      int& its = groups[static_cast<std::size_t>(found - parameters.begin())];
      if (its != kNoGroup)
        invalid_tensor(where + " has a parameter that groups[" + std::to_string(its) +
                       "] has, too");
      its = static_cast<int>(group);
    }
  }
  return groups;
}

}  // namespace

GradientBuckets::GradientBuckets(std::vector<at::Tensor> parameters, ParameterNames names,
                                 const hvd::DistributedOptimizerOptions& options)
    : names_(std::move(names)),
      options_(checked(options)),
      op_(operation_of(options)),
      scale_(factors_of(options, ranks_of({{}, options.process_set, {}}))),
      alone_(ranks_of({{}, options.process_set, {}}) == 1 &&
             scale_.prescale * scale_.postscale == 1),
      contribution_(Contribution::now(options.process_set)) {
  const std::vector<int> groups = groups_of(parameters, options);
  for (const at::Tensor& parameter : parameters)
    if (parameter.device() != parameters[0].device())
      invalid_tensor("DistributedOptimizer: parameters on " + parameters[0].device().str() +
                     " and on " + parameter.device().str() + "; an optimizer for each");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const hvd::DataType type = check_tensor("DistributedOptimizer", parameters[i]);
    sizes_.push_back({type, static_cast<std::size_t>(parameters[i].numel()), groups[i]});
    Gradient gradient;
    gradient.parameter = std::move(parameters[i]);
    gradients_.push_back(std::move(gradient));
  }
  lay_out({});
}

void GradientBuckets::set_name(const std::string& name) {
  name_ = name;
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    buckets_[i].options.name = name_of(i, buckets_[i]);
}

std::string GradientBuckets::name_of(std::size_t place, const Bucket& bucket) const {
  std::vector<at::Tensor> parameters;
  parameters.reserve(bucket.gradients.size());
  for (const std::size_t index : bucket.gradients)
    parameters.push_back(gradients_[index].parameter);
  return name_ + ".bucket." + std::to_string(place) + " (" + names_.of_all(parameters) + ")";
}

void GradientBuckets::lay_out(const std::vector<std::size_t>& order) {
  std::vector<Bucket> buckets;
  for (const BucketLayout& layout : plan_buckets(sizes_, options_.bucket_bytes, order)) {
    const std::size_t element = hvd::size_of(layout.type);
    Bucket bucket;
    bucket.options.process_set = options_.process_set;
    bucket.type = layout.type;
    bucket.elements = layout.elements;
    bucket.missing = layout.slots.size();
    const at::Tensor& first = gradients_[layout.slots.front().parameter].parameter;
    const at::ScalarType type = first.scalar_type();
    bucket.memory = bucket_memory(layout.elements * element, first.device());
    bucket.values = flat_tensor(bucket.memory, layout.elements, type, first.device());
    bucket.wire = bucket.values;
    if (const at::ScalarType wire = wire_type(type, options_.compression); wire != type)
      bucket.wire =
          flat_tensor(bucket_memory(layout.elements * c10::elementSize(wire), first.device()),
                      layout.elements, wire, first.device());
    for (const BucketSlot& slot : layout.slots) {
      Gradient& gradient = gradients_[slot.parameter];
      gradient.bucket = buckets.size();
      gradient.tensor = tensor_over(bucket.memory, slot.offset * element, gradient.parameter);
      bucket.gradients.push_back(slot.parameter);
    }
    bucket.options.name = name_of(buckets.size(), bucket);
    buckets.push_back(std::move(bucket));
  }
  for (Gradient& gradient : gradients_) bind(gradient);
  buckets_ = std::move(buckets);
}

// Every rank comes here in each round whose reductions have begun, until one of these exchanges has
// met all of them: one that has joined (hvd::join) brings zeros, and could not follow.
void GradientBuckets::agree_on_order() {
  if (adapted_) return;
  // 1, then the place of each gradient in this rank's order. What took no part comes last, where it
  // delays nothing.
  std::vector<std::int64_t> mine(gradients_.size() + 1,
                                 static_cast<std::int64_t>(gradients_.size()));
  mine[0] = 1;
  for (std::size_t place = 0; place < became_ready_.size(); ++place)
    mine[became_ready_[place] + 1] = static_cast<std::int64_t>(place);
  const hvd::OperationOptions exchange{name_ + ".order", options_.process_set, {}};
  const auto ranks = static_cast<std::size_t>(ranks_of(exchange));
  std::vector<std::int64_t> all(mine.size() * ranks);
  hvd::allgather(mine.data(), all.data(), mine.size(), exchange);
  // A bucket travels when the last rank has its gradients.
  std::vector<std::int64_t> latest(gradients_.size(), 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t* const its = &all[mine.size() * rank];
    if (its[0] != 1) return;
    for (std::size_t i = 0; i < latest.size(); ++i) latest[i] = std::max(latest[i], its[i + 1]);
  }
  adapted_ = true;
  std::vector<std::size_t> order(gradients_.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    order[place] = order.size() - 1 - place;
  const std::vector<std::size_t> planned = order;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return latest[a] < latest[b]; });
  if (order != planned) new_order_ = order;
}

GradientBuckets::~GradientBuckets() {
  try {
    wait();
  } catch (const std::exception&) {
    // The operation is over, which is all that matters here; whoever needed its result has failed.
  }
  try {
    const at::NoGradGuard no_grad;
    for (Gradient& gradient : gradients_) {
      if (bound(gradient)) gradient.parameter.mutable_grad() = gradient.tensor.clone();
    }
  } catch (const std::exception&) {
    // No memory: the gradients stay where they are, and keep the buckets alive.
  }
}

bool GradientBuckets::bound(const Gradient& gradient) {
  const at::Tensor& grad = gradient.parameter.grad();
  return grad.defined() && grad.unsafeGetTensorImpl() == gradient.tensor.unsafeGetTensorImpl();
}

void GradientBuckets::bind(Gradient& gradient) const {
  if (bound(gradient)) return;
  const at::NoGradGuard no_grad;
  const at::Tensor grad = gradient.parameter.grad();
  if (alone_ && grad.defined() && !grad.is_sparse()) return;
  if (!grad.defined()) {
    gradient.tensor.zero_();
  } else {
    gradient.tensor.copy_(grad.is_sparse() ? grad.to_dense() : grad);
  }
  gradient.parameter.mutable_grad() = gradient.tensor;
}

void GradientBuckets::note_backward(std::size_t parameter) const {
  const Gradient& gradient = gradients_[parameter];
  if (!is_ready(gradient) && gradient.bucket >= launched_) return;
  throw hvd::Error(
      hvd::ErrorCode::invalid_argument,
      "DistributedOptimizer: backward() reached " + names_.of(gradient.parameter) +
          " once more than backward_passes_per_step (" +
          std::to_string(options_.backward_passes_per_step) +
          ") before step(); call step(), or zero_grad() to drop the gradients, between two "
          "backward(), or add up the losses and call backward() once");
}

void GradientBuckets::note_ready(std::size_t parameter) {
  Gradient& gradient = gradients_[parameter];
  bind(gradient);  // autograd makes a new tensor for an undefined .grad, and with create_graph
  ++gradient.passes;
  if (!is_ready(gradient)) return;
  if (!adapted_) became_ready_.push_back(parameter);
  --buckets_[gradient.bucket].missing;
  while (launched_ < buckets_.size() && buckets_[launched_].missing == 0) launch_next();
}

void GradientBuckets::launch_next() {
  Bucket& bucket = buckets_[launched_];
  const Contribution& mine = contribution_;
  if (!mine.counts) {
    const at::NoGradGuard no_grad;
    bucket.values.fill_(Contribution::nothing(op_));
  }
  if (!alone_) {
    void* const data = bucket.wire.data_ptr();
    if (!bucket.wire.is_same(bucket.values)) {
      const at::NoGradGuard no_grad;
      bucket.wire.copy_(bucket.values);
    }
    bucket.stream = current_stream(bucket.wire);
    const hvd::ScaleFactors scale = mine.all ? scale_ : factors_of(options_, mine.contributors);
    bucket.handle = hvd::allreduce_async(
        data, data, bucket.elements, check_tensor("DistributedOptimizer", bucket.wire),
        mine.operation(op_), mine.factors(op_, scale), placed(bucket.options, bucket.wire));
  }
  ++launched_;
}

void GradientBuckets::launch_rest() {
  while (launched_ < buckets_.size()) {
    for (const std::size_t index : buckets_[launched_].gradients) bind(gradients_[index]);
    launch_next();
  }
}

void GradientBuckets::wait() {
  // All of them, even after an error: none may still write into memory that we let go.
  std::exception_ptr first;
  for (Bucket& bucket : buckets_) {
    if (!bucket.handle) continue;
    try {
      hvd::synchronize(*std::exchange(bucket.handle, std::nullopt));
      continue_after(bucket.stream);
      if (bucket.wire.is_same(bucket.values)) continue;
      const at::NoGradGuard no_grad;
      bucket.values.copy_(bucket.wire);
    } catch (...) {
      if (!first) first = std::current_exception();
      keep_for_gpu(bucket.wire);
    }
  }
  if (!first) return;
  failure_ = first;
  std::rethrow_exception(first);
}

void GradientBuckets::finish() {
  if (finished_) return;
  // A program that catches the error and steps again must not step on gradients half reduced.
  if (failure_) std::rethrow_exception(failure_);
  // A tensor put in place of a gradient under reduction would be used as it is, on this rank only.
  // To reduce it again is no way out: the other ranks may have replaced nothing, and would pair
  // that reduction with another one of their own.
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (alone_ || gradients_[i].bucket >= launched_ || bound(gradients_[i])) continue;
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "DistributedOptimizer: the .grad of " + names_.of(gradients_[i].parameter) +
                         " was replaced or reset after backward() while it was being reduced; call "
                         "synchronize() first, then change it, then step()");
  }
  launch_rest();
  wait();
  agree_on_order();
  finished_ = true;
}

void GradientBuckets::next_round() {
  if (!new_order_.empty()) lay_out(std::exchange(new_order_, {}));
  became_ready_.clear();
  for (Bucket& bucket : buckets_) bucket.missing = bucket.gradients.size();
  for (Gradient& gradient : gradients_) gradient.passes = 0;
  launched_ = 0;
  contribution_ = Contribution::now(options_.process_set);
  finished_ = false;
  failure_ = nullptr;
}

bool GradientBuckets::has_begun() const {
  return std::any_of(gradients_.begin(), gradients_.end(),
                     [&](const auto& gradient) { return is_ready(gradient); });
}

void GradientBuckets::zero(bool set_to_none, bool begun) {
  // Another rank may be in step() for the same gradients and needs all buckets from us.
  if (begun && !finished_) launch_rest();
  wait();
  if (begun && !finished_) agree_on_order();
  if (set_to_none) {
    for (Gradient& gradient : gradients_) gradient.parameter.mutable_grad().reset();
  } else {
    const at::NoGradGuard no_grad;
    for (Bucket& bucket : buckets_) bucket.values.zero_();
    for (Gradient& gradient : gradients_) gradient.parameter.mutable_grad() = gradient.tensor;
  }
  next_round();
}

}  // namespace hvdrun
