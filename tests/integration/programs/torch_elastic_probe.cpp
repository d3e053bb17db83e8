// hvd::elastic on real ranks: a training that is broken by errors, of all ranks or of one, ends
// with the bits of one that was not. Every sample has had its turn once in each epoch.
#include <cstdio>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::elastic_probe {
namespace {

enum class Fault { none, mismatch, own };

constexpr std::size_t kSamples = 60;
constexpr std::int64_t kEpochs = 3;
constexpr std::int64_t kFaultyEpoch = 1;

struct Trained {
  std::vector<torch::Tensor> parameters;
  std::vector<double> turns;  // of each sample, over all ranks and epochs
  int attempts = 0;
  int resets = 0;
};

void break_once(Fault fault) {
  if (fault == Fault::mismatch) {
    // Another number of elements on one rank: an error on all of them.
    const std::size_t count = hvd::rank() == hvd::size() - 1 ? 2 : 1;
    std::vector<float> values(count);
    hvd::allreduce(values.data(), values.data(), count, hvd::ReduceOp::sum, {}, {"broken", {}, {}});
  }
  // An error that the others do not have: they learn that this rank has left.
  if (fault == Fault::own && hvd::rank() == hvd::size() - 1)
    throw hvd::Error(hvd::ErrorCode::timeout, "this rank alone");
}

Trained train(Fault fault) {
  torch::manual_seed(3);
  const torch::Tensor inputs = torch::randn({static_cast<std::int64_t>(kSamples), 5});
  const torch::Tensor targets = inputs.sum(1, true);
  torch::nn::Linear model(5, 1);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  hvd::elastic::ElasticSampler sampler(kSamples, true, 11);
  std::int64_t epoch = 0;
  double turns[kSamples] = {};
  hvd::elastic::TorchState state(model.get(), &sgd);
  state.add("epoch", epoch).add("turns", turns).add(sampler);
  Trained trained;
  state.register_reset_callback([&] { ++trained.resets; });
  bool broken = fault == Fault::none;
  hvd::elastic::run(state, [&] {
    ++trained.attempts;
    hvd::DistributedOptimizer optimizer(sgd);
    hvd::elastic::CommitEvery commit(state);
    for (; epoch < kEpochs; ++epoch) {
      while (const auto batch = sampler.next(4 * static_cast<std::size_t>(hvd::size()))) {
        const std::vector<std::int64_t> rows(batch->begin(), batch->end());
        const torch::Tensor picked = torch::tensor(rows);
        torch::mse_loss(model->forward(inputs.index_select(0, picked)),
                        targets.index_select(0, picked))
            .backward();
        if (!broken && epoch == kFaultyEpoch && sampler.processed() >= kSamples / 2) {
          broken = true;
          break_once(fault);
        }
        optimizer.step();
        optimizer.zero_grad();
        double done[kSamples] = {};
        for (const std::size_t sample : *batch) done[sample] = 1;
        hvd::allreduce(done, done, kSamples, hvd::ReduceOp::sum);
        for (std::size_t i = 0; i < kSamples; ++i) turns[i] += done[i];
        sampler.record();
        commit.on_batch_end();
      }
      sampler.set_epoch(static_cast<std::uint64_t>(epoch) + 1);
    }
  });
  for (const torch::Tensor& parameter : model->parameters())
    trained.parameters.push_back(parameter.detach().clone());
  trained.turns.assign(turns, turns + kSamples);
  return trained;
}

bool check(const char* what, const Trained& trained, const Trained& expected, int attempts) {
  bool good = trained.attempts == attempts && trained.resets == attempts - 1;
  for (std::size_t i = 0; i < expected.parameters.size(); ++i)
    good = good && trained.parameters[i].equal(expected.parameters[i]);
  // Without a remainder, of 60 samples on 1 to 6 ranks.
  for (const double turns : trained.turns) good = good && turns == kEpochs;
  if (!good)
    std::printf("failed: rank %d: %s: %d attempts, %d resets\n", hvd::rank(), what,
                trained.attempts, trained.resets);
  return good;
}

}  // namespace

int run(const Arguments& /*arguments*/) {
  try {
    hvd::init();
    const Trained whole = train(Fault::none);
    bool good = check("unbroken", whole, whole, 1);
    // Alone there is nobody to differ from.
    if (hvd::size() > 1) good = check("a mismatch", train(Fault::mismatch), whole, 2) && good;
    good = check("an error of one rank", train(Fault::own), whole, 2) && good;
    hvd::shutdown();
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("torch_probe elastic: %s\n", error.what());
    return 2;
  }
}

}  // namespace hvdrun::test::elastic_probe
