#include <ostream>
#include <string>

#include <hvd/torch.h>

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// {1, features, 1, ...}: as wide as the input for what there is once for each feature.
Tensor for_each_feature(const Tensor& values, const Tensor& input) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = values.numel();
  return values.view(sizes);
}

Tensor sum_over_batch(const Tensor& values) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 0; i < values.dim(); ++i)
    if (i != 1) dimensions.push_back(i);
  return values.sum(dimensions);
}

// In 16 bits neither counts nor sums would be right.
at::ScalarType exact_type(const Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// All on the input's device: no host waits for what they are.
struct Statistics {
  Tensor mean;
  Tensor variance;  // the mean square distance from it
  Tensor count;     // elements of a feature on all ranks
};

// Mean and variance of all from those of each rank that counts (Chan's formula). A sum of squares
// would lose all digits where the mean is large against the deviation.
Statistics of_all_ranks(const Tensor& input, const hvd::ProcessSet& set, bool counts) {
  const std::int64_t features = input.size(1);
  const double count = features == 0 || !counts
                           ? 0
                           : static_cast<double>(input.numel()) / static_cast<double>(features);
  Tensor mine = at::zeros({2 * features + 1}, input.options().dtype(exact_type(input)));
  if (count > 0) {
    const Tensor mean = sum_over_batch(input) / count;
    const Tensor distance = input - for_each_feature(mean, input);
    mine.narrow(0, 0, features).copy_(mean);
    mine.narrow(0, features, features).copy_(sum_over_batch(distance * distance));
    mine[2 * features].fill_(count);
  }
  const hvd::OperationOptions options{{}, set, {}};
  const Tensor all =
      at::empty({ranks_of(options), static_cast<std::int64_t>(mine.numel())}, mine.options());
  try {
    hvd::allgather(mine.data_ptr(), all.data_ptr(), static_cast<std::size_t>(mine.numel()),
                   check_tensor("SyncBatchNorm", mine), with_shape(options, mine));
  } catch (const hvd::Error& error) {
    throw hvd::Error(error.code(),
                     "SyncBatchNorm of " + std::to_string(features) + " features: " + error.what());
  }
  const Tensor means = all.narrow(1, 0, features);
  const Tensor squares = all.narrow(1, features, features);
  const Tensor elements = all.narrow(1, 2 * features, 1);
  Statistics statistics;
  statistics.count = elements.sum();
  const Tensor divisor = statistics.count.clamp_min(1);  // zeros where nobody has anything
  statistics.mean = (means * elements).sum(0) / divisor;
  const Tensor between = means - statistics.mean;
  statistics.variance = (squares + between * between * elements).sum(0) / divisor;
  return statistics;
}

class Normalize : public torch::autograd::Function<Normalize> {
 public:
  // Optional, because an undefined tensor may not be an argument.
  static Tensor forward(AutogradContext* context, const Tensor& input,
                        const c10::optional<Tensor>& weight, const c10::optional<Tensor>& bias,
                        const Tensor& mean, const Tensor& inverse_deviation, const Tensor& count,
                        std::int64_t set, bool counts) {
    const Tensor normal =
        (input - for_each_feature(mean, input)) * for_each_feature(inverse_deviation, input);
    context->save_for_backward({normal, weight.value_or(Tensor()), inverse_deviation, count});
    context->saved_data["set"] = set;
    context->saved_data["counts"] = counts;
    context->saved_data["has_bias"] = bias.has_value();
    // The kept tensor must not change when the program changes what it is given.
    Tensor output = weight || bias ? normal : normal.clone();
    if (weight) output = output * for_each_feature(*weight, input);
    if (bias) output = output + for_each_feature(*bias, input);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& normal = saved[0];
    const Tensor& weight = saved[1];
    const Tensor count = saved[3].clamp_min(1);
    const hvd::ProcessSet set{static_cast<int>(context->saved_data["set"].toInt())};
    const Tensor& gradient = gradients[0];

    const Tensor for_bias = sum_over_batch(gradient);
    const Tensor for_weight = sum_over_batch(gradient * normal);
    Tensor mine = at::stack({for_bias, for_weight});
    if (!context->saved_data["counts"].toBool()) mine.zero_();
    const Tensor sums =
        hvd::allreduce(mine, hvd::ReduceOp::sum, {}, hvd::Compression::none, {{}, set, {}});
    const Tensor mean_gradient = for_each_feature(sums[0] / count, gradient);
    const Tensor along = for_each_feature(sums[1] / count, gradient);
    Tensor factor = saved[2];
    if (weight.defined()) factor = factor * weight;
    return {(gradient - mean_gradient - normal * along) * for_each_feature(factor, gradient),
            weight.defined() ? for_weight : Tensor(),
            context->saved_data["has_bias"].toBool() ? for_bias : Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace
}  // namespace hvdrun

namespace hvd {

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  // By running statistics no other rank is called, and a GPU may be used without hvd::init.
  if (is_training() || !running_mean.defined()) hvdrun::check_tensor("SyncBatchNorm", input);
  if (!input.is_floating_point())
    hvdrun::invalid_tensor(std::string("SyncBatchNorm: dtype ") +
                           at::toString(input.scalar_type()) + "; a floating-point one");
  if (input.dim() < 2)
    hvdrun::invalid_tensor("SyncBatchNorm: a tensor of " + std::to_string(input.dim()) +
                           " dimensions; at least {batch, features}");
  if (input.size(1) != options.num_features())
    hvdrun::invalid_tensor("SyncBatchNorm: " + std::to_string(input.size(1)) +
                           " features; the layer was made for " +
                           std::to_string(options.num_features()));
}

void SyncBatchNormImpl::note_batch(const at::Tensor& mean, const at::Tensor& variance,
                                   const at::Tensor& count) {
  const at::Tensor any = count.gt(0);  // an empty batch is none
  num_batches_tracked.add_(any.to(num_batches_tracked.scalar_type()));
  const at::ScalarType type = running_mean.scalar_type();
  const at::Tensor share = options.momentum()
                               ? any.to(type) * *options.momentum()
                               : any.to(type) / num_batches_tracked.clamp_min(1).to(type);
  running_mean.lerp_(mean.to(type), share);
  // The variance of what the batch was drawn from, as BatchNorm keeps it.
  const at::Tensor unbiased = count / (count - 1).clamp_min(1);
  running_var.lerp_((variance * unbiased).to(running_var.scalar_type()), share);
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  if (!is_training() && running_mean.defined())
    return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false, 0,
                          options.eps(), /*cudnn_enabled=*/false);
  const at::ScalarType exact = hvdrun::exact_type(input);
  hvdrun::Statistics statistics;
  const bool counts = elastic::contributor_rank() >= 0;
  {
    const at::NoGradGuard no_grad;
    statistics = hvdrun::of_all_ranks(input.detach().to(exact), process_set_, counts);
    if (is_training() && running_mean.defined())
      note_batch(statistics.mean, statistics.variance, statistics.count);
  }
  const auto as_exact = [&](const at::Tensor& values) -> c10::optional<at::Tensor> {
    if (!values.defined()) return c10::nullopt;
    return values.to(exact);
  };
  return hvdrun::Normalize::apply(input.to(exact), as_exact(weight), as_exact(bias),
                                  statistics.mean, (statistics.variance + options.eps()).rsqrt(),
                                  statistics.count, process_set_.id, counts)
      .to(input.scalar_type());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "hvd::SyncBatchNorm(" << options.num_features()
         << ", eps=" << options.eps() << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

}  // namespace hvd
