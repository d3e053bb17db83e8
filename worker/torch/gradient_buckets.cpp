#include "worker/torch/gradient_buckets.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include <c10/util/strides.h>

#include "worker/torch/bucket_memory.h"
#include "worker/torch/bucket_plan.h"
#include "worker/torch/tensor_types.h"

namespace hvdrun {
namespace {

// Fault injection: HVD_FAULT_SKIP_ALLREDUCE=k leaves out the k-th bucket reduction of every
// optimizer's life, counted from 0, on every rank that has the variable. It is there so that the
// tests that compare training runs can show that they notice one missing reduction.
std::optional<std::uint64_t> skipped_reduction() {
  // Read once while the optimizer is made; nothing here changes the environment.
  const char* value = std::getenv("HVD_FAULT_SKIP_ALLREDUCE");  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::strtoull(value, nullptr, 10);
}

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
      at::TensorOptions().dtype(parameter.scalar_type()));
}

// FNV-1a, 64 bit.
class Hash {
 public:
  void add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      state_ = (state_ ^ (static_cast<std::uint64_t>(value) >> shift & 0xff)) * 0x100000001b3;
    }
  }
  void add(at::IntArrayRef values) {
    add(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) add(value);
  }
  std::int64_t value() const { return static_cast<std::int64_t>(state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace

GradientBuckets::GradientBuckets(std::vector<at::Tensor> parameters, hvd::ReduceOp op,
                                 std::size_t bucket_bytes)
    : op_(op), bucket_bytes_(bucket_bytes), skipped_reduction_(skipped_reduction()) {
  std::vector<ParameterSize> sizes;
  for (at::Tensor& parameter : parameters) {
    const hvd::DataType type = check_tensor("DistributedOptimizer", parameter);
    sizes.push_back({type, static_cast<std::size_t>(parameter.numel())});
    Gradient gradient;
    gradient.parameter = std::move(parameter);
    gradients_.push_back(std::move(gradient));
  }
  for (const BucketLayout& layout : plan_buckets(sizes, bucket_bytes)) {
    const std::size_t element = hvd::size_of(layout.type);
    Bucket bucket{
        layout.type, layout.elements,     allocate_bucket_memory(layout.elements * element),
        {},          layout.slots.size(), std::nullopt};
    for (const BucketSlot& slot : layout.slots) {
      Gradient& gradient = gradients_[slot.parameter];
      gradient.bucket = buckets_.size();
      gradient.tensor = tensor_over(bucket.memory, slot.offset * element, gradient.parameter);
      bucket.gradients.push_back(slot.parameter);
    }
    buckets_.push_back(std::move(bucket));
  }
  for (Gradient& gradient : gradients_) bind(gradient);
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

void GradientBuckets::bind(Gradient& gradient) {
  if (bound(gradient)) return;
  const at::NoGradGuard no_grad;
  const at::Tensor grad = gradient.parameter.grad();
  if (!grad.defined()) {
    gradient.tensor.zero_();
  } else {
    gradient.tensor.copy_(grad.is_sparse() ? grad.to_dense() : grad);
  }
  gradient.parameter.mutable_grad() = gradient.tensor;
}

void GradientBuckets::note_backward(std::size_t parameter) const {
  const Gradient& gradient = gradients_[parameter];
  if (!gradient.ready && gradient.bucket >= launched_) return;
  throw hvd::Error(
      hvd::ErrorCode::invalid_argument,
      "DistributedOptimizer: backward() reached parameter " + std::to_string(parameter) +
          " a second time before step(); call step(), or zero_grad() to drop the first gradients, "
          "between two backward(), or add up the losses and call backward() once");
}

void GradientBuckets::note_ready(std::size_t parameter) {
  Gradient& gradient = gradients_[parameter];
  bind(gradient);  // autograd makes a new tensor for an undefined .grad, and with create_graph
  gradient.ready = true;
  --buckets_[gradient.bucket].missing;
  while (launched_ < buckets_.size() && buckets_[launched_].missing == 0) launch_next();
}

void GradientBuckets::launch_next() {
  Bucket& bucket = buckets_[launched_];
  if (hvd::size() > 1 && reductions_ != skipped_reduction_) {
    bucket.handle = hvd::allreduce_async(bucket.memory.get(), bucket.memory.get(), bucket.elements,
                                         bucket.type, op_);
  }
  ++reductions_;
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
    } catch (const hvd::Error&) {
      if (!first) first = std::current_exception();
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
  // What was put in place of a gradient under reduction would be used as it is, on this rank only.
  // To reduce it again is no way out: the other ranks may have replaced nothing, and would pair
  // that reduction with another one of their own.
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].bucket >= launched_ || bound(gradients_[i])) continue;
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "DistributedOptimizer: the .grad of parameter " + std::to_string(i) +
                         " was replaced or reset after backward() while it was being reduced; call "
                         "synchronize() first, then change it, then step()");
  }
  launch_rest();
  wait();
  finished_ = true;
}

void GradientBuckets::next_round() {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.gradients.size();
  for (Gradient& gradient : gradients_) gradient.ready = false;
  launched_ = 0;
  finished_ = false;
  failure_ = nullptr;
}

void GradientBuckets::zero() {
  const bool begun =
      std::any_of(gradients_.begin(), gradients_.end(), [](const auto& g) { return g.ready; });
  // Another rank may be in step() for the same gradients and needs all buckets from us.
  if (begun && !finished_) launch_rest();
  wait();
  for (const Bucket& bucket : buckets_) {
    std::memset(bucket.memory.get(), 0, bucket.elements * hvd::size_of(bucket.type));
  }
  for (Gradient& gradient : gradients_) gradient.parameter.mutable_grad() = gradient.tensor;
  next_round();
}

std::int64_t GradientBuckets::fingerprint() const {
  Hash hash;
  hash.add(static_cast<std::int64_t>(op_));
  hash.add(static_cast<std::int64_t>(bucket_bytes_));
  for (const Gradient& gradient : gradients_) {
    hash.add(static_cast<std::int64_t>(gradient.tensor.scalar_type()));
    hash.add(gradient.tensor.sizes());
    hash.add(gradient.tensor.strides());
  }
  return hash.value();
}

std::int64_t GradientBuckets::total_elements() const {
  std::int64_t total = 0;
  for (const Gradient& gradient : gradients_) total += gradient.tensor.numel();
  return total;
}

}  // namespace hvdrun
