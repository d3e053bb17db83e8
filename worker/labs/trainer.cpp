#include "worker/labs/trainer.h"

#include <algorithm>
#include <array>
#include <vector>

namespace hvdrun {
namespace {

constexpr std::size_t kEvaluationBatch = 256;

class Sums {
 public:
  void add(double loss, const at::Tensor& output, const at::Tensor& labels) {
    const auto images = static_cast<double>(labels.size(0));
    loss_ += loss * images;
    correct_ += output.argmax(1).eq(labels).sum().item<double>();
    images_ += images;
  }

  Score over_all_ranks() const {
    std::array<double, 3> sums{loss_, correct_, images_};
    hvd::allreduce(sums.data(), sums.data(), sums.size(), hvd::ReduceOp::sum);
    if (sums[2] == 0) return {};
    return {sums[0] / sums[2], sums[1] / sums[2], static_cast<std::size_t>(sums[2])};
  }

 private:
  double loss_ = 0;
  double correct_ = 0;
  double images_ = 0;
};

}  // namespace

Trainer::Trainer(std::shared_ptr<LabModel> model, torch::optim::Optimizer& optimizer)
    : model_(std::move(model)), optimizer_(optimizer) {}

Score Trainer::train_epoch(const ImageBatches& data, const EpochSampler& order,
                           std::size_t batch_size, std::size_t max_steps,
                           const StepCallbacks& callbacks) {
  model_->train();
  Sums sums;
  const std::size_t steps = std::min(order.steps(batch_size, hvd::size()), max_steps);
  for (std::size_t step = 0; step < steps; ++step) {
    if (callbacks.before) callbacks.before(step);
    const Batch batch =
        data.gather(order.batch(step, batch_size, hvd::rank(), hvd::size()), batch_size);
    optimizer_.zero_grad();
    const torch::Tensor output = model_->forward(batch.images);
    const torch::Tensor loss = torch::nll_loss(output, batch.labels);
    const torch::Tensor penalty = model_->penalty();
    (penalty.defined() ? loss + penalty : loss).backward();
    optimizer_.step();
    const auto value = loss.item<double>();
    sums.add(value, output.detach(), batch.labels);
    if (callbacks.after) callbacks.after(value);
  }
  average_buffers();
  return sums.over_all_ranks();
}

void Trainer::average_buffers() {
  std::vector<at::Tensor> running;
  for (const at::Tensor& buffer : model_->buffers())
    if (buffer.is_floating_point()) running.push_back(buffer);
  if (running.empty() || hvd::size() == 1) return;
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> averages = hvd::grouped_allreduce(running);
  for (std::size_t i = 0; i < running.size(); ++i) running[i].copy_(averages[i]);
}

Score Trainer::evaluate(const ImageBatches& data) {
  const torch::NoGradGuard no_grad;
  model_->eval();
  Sums sums;
  const IndexRange mine = shard(data.size(), hvd::rank(), hvd::size());
  for (std::size_t begin = mine.begin; begin < mine.end; begin += kEvaluationBatch) {
    const Batch batch = data.range(begin, std::min(begin + kEvaluationBatch, mine.end));
    const torch::Tensor output = model_->forward(batch.images);
    sums.add(torch::nll_loss(output, batch.labels).item<double>(), output, batch.labels);
  }
  return sums.over_all_ranks();
}

}  // namespace hvdrun
