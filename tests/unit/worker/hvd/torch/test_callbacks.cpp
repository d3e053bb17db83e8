#include <cmath>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::reset_fake_job;
using torch::optim::SGD;
using torch::optim::SGDOptions;

SGD make_sgd(double rate, double momentum) {
  return SGD({torch::ones({2}, torch::requires_grad())}, SGDOptions(rate).momentum(momentum));
}
double rate_of(SGD& sgd) { return sgd.param_groups()[0].options().get_lr(); }
double momentum_of(SGD& sgd) {
  return static_cast<SGDOptions&>(sgd.param_groups()[0].options()).momentum();
}

TEST_CASE("the warm-up ends with the whole rate at its last batch", "[callbacks]") {
  reset_fake_job(4);
  SGD sgd = make_sgd(0.4, 0.9);
  constexpr int kEpochs = 2;
  constexpr int kSteps = 5;
  hvd::LearningRateSchedule warmup = hvd::warmup_schedule(sgd, 0.4, kEpochs, kSteps);
  double previous = 0.4;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    warmup.on_epoch_begin(epoch);
    for (int batch = 0; batch < kSteps; ++batch) {
      warmup.on_batch_begin(batch);
      const double done = (epoch + (batch + 1.0) / kSteps) / kEpochs;
      CHECK(rate_of(sgd) == Approx(0.1 + done * 0.3));
      CHECK(momentum_of(sgd) == Approx(0.9 * rate_of(sgd) / previous));
      previous = rate_of(sgd);
      warmup.on_batch_end();
      CHECK(momentum_of(sgd) == 0.9);
    }
  }
  CHECK(rate_of(sgd) == Approx(0.4));
  sgd.param_groups()[0].options().set_lr(7);
  warmup.on_epoch_begin(kEpochs);
  warmup.on_batch_begin(0);
  CHECK(rate_of(sgd) == 7);
}

TEST_CASE("a schedule in stairs changes the rate once an epoch, in its span", "[callbacks]") {
  reset_fake_job();
  SGD sgd = make_sgd(1, 0.5);
  hvd::LearningRateOptions options;
  options.start_epoch = 2;
  options.end_epoch = 4;
  options.momentum_correction = false;
  hvd::LearningRateSchedule schedule = hvd::exponential_schedule(sgd, 8, 0.5, options);
  const std::vector<double> expected{1, 1, 8, 4, 4};
  for (int epoch = 0; epoch < 5; ++epoch) {
    schedule.on_epoch_begin(epoch);
    for (int batch = 0; batch < 3; ++batch) {
      schedule.on_batch_begin(batch);
      CHECK(rate_of(sgd) == expected[static_cast<std::size_t>(epoch)]);
      CHECK(momentum_of(sgd) == 0.5);
      schedule.on_batch_end();
    }
  }
  // A program that loads a checkpoint in the middle of an epoch begins at another batch.
  schedule.on_epoch_begin(3);
  sgd.param_groups()[0].options().set_lr(3);
  schedule.on_batch_begin(1);
  CHECK(rate_of(sgd) == 3);
}

TEST_CASE("a loop that leaves a batch early keeps its momentum", "[callbacks]") {
  reset_fake_job(2);
  SGD sgd = make_sgd(1, 0.9);
  hvd::LearningRateSchedule warmup = hvd::warmup_schedule(sgd, 1, 1, 4);
  warmup.on_epoch_begin(0);
  for (int batch = 0; batch < 4; ++batch) warmup.on_batch_begin(batch);
  warmup.on_batch_end();
  CHECK(momentum_of(sgd) == 0.9);
}

TEST_CASE("optimizers without momentum have schedules too", "[callbacks]") {
  reset_fake_job(2);
  torch::optim::Adam adam({torch::ones({2}, torch::requires_grad())}, 1.0);
  hvd::LearningRateSchedule warmup = hvd::warmup_schedule(adam, 1, 1, 2);
  warmup.on_batch_begin(0);
  CHECK(adam.param_groups()[0].options().get_lr() == 0.75);
  warmup.on_batch_end();
}

TEST_CASE("schedules that make no sense are refused", "[callbacks]") {
  reset_fake_job();
  SGD sgd = make_sgd(1, 0);
  CHECK_THAT(error_of([&] { hvd::warmup_schedule(sgd, 1, 5, 0); }),
             Contains("steps_per_epoch is 0"));
  CHECK_THAT(error_of([&] { hvd::LearningRateSchedule(sgd, 1, nullptr); }),
             Contains("no multiplier"));
  hvd::EarlyStopOptions options;
  options.patience = 0;
  CHECK_THAT(error_of([&] { hvd::EarlyStop early(options); }), Contains("patience is 0"));
}

TEST_CASE("training stops after so many epochs without an improvement", "[callbacks]") {
  reset_fake_job();  // averages are 2.5 times our own
  hvd::EarlyStopOptions options;
  options.patience = 2;
  options.min_delta = 0.1;
  hvd::EarlyStop early(options);
  CHECK(std::isnan(early.best()));
  CHECK_FALSE(early.update(std::nan("")));
  CHECK_FALSE(early.update(2));
  CHECK(early.best() == 5);
  CHECK_FALSE(early.update(1.97));  // better, but by 0.075 only
  CHECK_FALSE(early.update(1.9));
  CHECK(early.best() == 4.75);
  CHECK_FALSE(early.update(1.9));
  CHECK(early.update(std::nan("")));

  options.higher_is_better = true;
  hvd::EarlyStop accuracy(options);
  CHECK_FALSE(accuracy.update(0.5));
  CHECK_FALSE(accuracy.update(0.6));
  CHECK_FALSE(accuracy.update(0.5));
  CHECK(accuracy.update(0.5));
}

TEST_CASE("metrics are averaged by name", "[callbacks]") {
  reset_fake_job();
  const auto means = hvd::metric_average({{"loss", 2.0}, {"accuracy", 0.5}});
  CHECK(means == std::map<std::string, double>{{"accuracy", 1.25}, {"loss", 5.0}});
  test::fake_job().objects = [](int rank, const std::string& mine) {
    return rank == 2 ? "loss" : mine;
  };
  try {
    hvd::metric_average({{"loss", 2.0}, {"accuracy", 0.5}});
    FAIL("no error");
  } catch (const hvd::Error& error) {
    CHECK(error.code() == hvd::ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("rank 0 has accuracy, loss, but rank 2 has loss"));
  }
}

}  // namespace
}  // namespace hvdrun
