// A state that comes back, a sampler that goes on, and the loop around both.
#include <algorithm>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using hvd::elastic::ElasticSampler;
using hvd::elastic::TorchState;
using test::error_of;
using test::fake_job;
using test::reset_fake_job;

struct StateFixture {
  StateFixture() { reset_fake_job(); }
  void step() {
    sgd.zero_grad();
    (model->forward(torch::ones({2, 3})) + running).sum().backward();
    sgd.step();
    running.add_(1);
    ++epoch;
  }
  std::vector<at::Tensor> values() {
    std::vector<at::Tensor> all{running.clone()};
    for (const at::Tensor& parameter : model->parameters()) all.push_back(parameter.clone());
    return all;
  }
  static bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    return std::equal(
        a.begin(), a.end(), b.begin(), b.end(),
        [](const at::Tensor& one, const at::Tensor& other) { return one.equal(other); });
  }

  torch::nn::Linear model{3, 1};
  at::Tensor running = model->register_buffer("running", torch::zeros({1}));
  torch::optim::SGD sgd{model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
  std::int64_t epoch = 0;
};

TEST_CASE_METHOD(StateFixture, "a state goes back to its last commit, momentum and all",
                 "[elastic]") {
  TorchState state(model.get(), &sgd);
  ElasticSampler sampler(100);
  state.add("epoch", epoch).add(sampler);
  const int committed = GENERATE(0, 2);
  for (int i = 0; i < committed; ++i) step();
  sampler.next(20);
  sampler.record();
  sgd.param_groups()[0].options().set_lr(0.05);
  state.commit();
  step();
  step();
  const auto expected = values();
  sampler.set_epoch(7);
  sgd.param_groups()[0].options().set_lr(0.5);
  step();
  state.restore();
  // Else a loop that zeroes them last would add to those of the failed step.
  for (const at::Tensor& parameter : model->parameters()) CHECK_FALSE(parameter.grad().defined());
  CHECK(epoch == committed);
  CHECK(sampler.epoch() == 0);
  CHECK(sampler.processed() == 20);
  CHECK(sgd.param_groups()[0].options().get_lr() == 0.05);
  step();
  step();
  CHECK(same(values(), expected));
  CHECK(state.commits() == 1);
  CHECK_THAT(error_of([&] { state.add("epoch", epoch); }), Contains("there is a 'epoch' already"));
}

TEST_CASE_METHOD(StateFixture, "training goes on from the last commit after an error",
                 "[elastic]") {
  TorchState state(model.get(), &sgd);
  ElasticSampler sampler(100);
  state.add("epoch", epoch).add(sampler);
  int resets = 0;
  state.register_reset_callback([&] {
    ++resets;
    CHECK(hvd::size() == 3);
  });
  fake_job().size_after = 3;
  std::vector<std::int64_t> seen;
  hvd::elastic::run(state, [&] {
    while (epoch < 5) {
      seen.push_back(epoch);
      step();
      if (epoch == 4 && resets == 0) throw hvd::Error(hvd::ErrorCode::mismatch, "the ranks differ");
      if (epoch % 2 == 1) state.commit();
    }
  });
  CHECK(resets == 1);
  CHECK(fake_job().inits == 1);
  CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 3, 4});
  CHECK(running.item<double>() == 5);
  CHECK(sampler.remaining() == 100);
}

TEST_CASE_METHOD(StateFixture, "an error that comes again each time ends the training",
                 "[elastic]") {
  TorchState state(model.get());
  int calls = 0;
  hvd::elastic::RunOptions options;
  options.max_failures = 2;
  SECTION("without a commit between") {
    CHECK(error_of(
              [&] {
                hvd::elastic::run(
                    state,
                    [&] {
                      ++calls;
                      throw hvd::Error(hvd::ErrorCode::timeout, "too long");
                    },
                    options);
              },
              hvd::ErrorCode::timeout) == "too long");
    CHECK(calls == 2);
  }
  SECTION("a commit begins the count anew") {
    CHECK_THROWS_AS(hvd::elastic::run(
                        state,
                        [&] {
                          if (++calls < 5) state.commit();
                          throw hvd::Error(hvd::ErrorCode::peer_lost, "rank 1 left");
                        },
                        options),
                    hvd::Error);
    CHECK(calls == 5);
  }
  SECTION("what is this rank's own fault is not tried again") {
    CHECK_THROWS_AS(hvd::elastic::run(state,
                                      [&] {
                                        ++calls;
                                        throw hvd::Error(hvd::ErrorCode::invalid_argument,
                                                         "no such root");
                                      }),
                    hvd::Error);
    CHECK(calls == 1);
    CHECK_THROWS_AS(hvd::elastic::run(state,
                                      [&] {
                                        ++calls;
                                        throw std::runtime_error("a full disk");
                                      }),
                    std::runtime_error);
    CHECK(calls == 2);
    CHECK(fake_job().inits == 0);
    options.max_failures = 0;
    CHECK_THAT(error_of([&] {
                 hvd::elastic::run(
                     state, [] {}, options);
               }),
               Contains("max_failures is 0"));
  }
}

TEST_CASE_METHOD(StateFixture, "states of other numbers are told on every rank", "[elastic]") {
  TorchState state(model.get());
  state.add("epoch", epoch);
  fake_job().objects = [](int rank, const std::string& mine) {
    return rank == 2 ? mine + ", batch of 4 bytes" : mine;
  };
  CHECK_THAT(error_of([&] { state.sync(); }, hvd::ErrorCode::mismatch),
             Contains("rank 0") && Contains("rank 2") && Contains("batch of 4 bytes"));
}

TEST_CASE_METHOD(StateFixture, "every so many batches are a commit", "[elastic]") {
  TorchState state(nullptr);
  hvd::elastic::CommitEvery commit(state, 3);
  for (int i = 0; i < 7; ++i) commit.on_batch_end();
  CHECK(state.commits() == 2);
  CHECK_THAT(error_of([&] { hvd::elastic::CommitEvery(state, 0); }), Contains("at least 1"));
}

}  // namespace
}  // namespace hvdrun
