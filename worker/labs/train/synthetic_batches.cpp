#include "worker/labs/train/synthetic_batches.h"

#include <utility>

#include "worker/labs/models/failed_layer.h"

namespace hvdrun {
namespace {

// Words are numbers; every vocabulary has these. 0 is no word.
constexpr std::int64_t kWords = 1000;

std::int64_t classes_of(LabModel& model) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const std::int64_t outputs = checked_forward(model, model.example(1)).size(1);
  model.train(was_training);
  return outputs == 1 ? 2 : outputs;  // one logit: yes or no
}

}  // namespace

SyntheticBatches::SyntheticBatches(LabModel& model, std::size_t samples, std::size_t batch,
                                   std::int64_t side)
    : samples_(samples), classes_(classes_of(model)) {
  const auto count = static_cast<std::int64_t>(batch);
  torch::Tensor example = model.example(count);
  if (side > 0) example = torch::empty({count, example.size(1), side, side});
  all_.inputs = example.is_floating_point() ? torch::randn_like(example)
                                            : torch::randint_like(example, 1, kWords);
  all_.labels = torch::randint(classes_, {count}, torch::kLong);
}

void SyntheticBatches::begin(Pass pass) {
  pass_ = std::move(pass);
  batch_ = 0;
}

std::optional<Batch> SyntheticBatches::next() {
  if (batch_ == pass_.batch_sizes.size()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(pass_.batch_sizes[batch_++]);
  if (count > all_.labels.size(0)) {
    const torch::Tensor again = torch::arange(count).remainder(all_.labels.size(0));
    return Batch{all_.inputs.index_select(0, again), all_.labels.index_select(0, again)};
  }
  return Batch{all_.inputs.slice(0, 0, count), all_.labels.slice(0, 0, count)};
}

}  // namespace hvdrun
