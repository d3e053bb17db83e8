// A state that comes back, a sampler that goes on, and the loop around both.
#include <algorithm>
#include <numeric>
#include <set>

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
using Samples = std::vector<std::size_t>;

// The samples that each rank of a job gets until `batches` of them are done, or the epoch is.
std::vector<Samples> given(int ranks, std::size_t batch, std::size_t batches,
                           const std::function<void(ElasticSampler&)>& prepare,
                           ElasticSampler sampler) {
  std::vector<Samples> all;
  for (int rank = 0; rank < ranks; ++rank) {
    reset_fake_job(ranks);
    fake_job().rank = rank;
    ElasticSampler its = sampler;
    prepare(its);
    Samples samples;
    for (std::size_t i = 0; i < batches; ++i)
      if (const auto next = its.next(batch))
        samples.insert(samples.end(), next->begin(), next->end());
    all.push_back(samples);
  }
  return all;
}

Samples joined(const std::vector<Samples>& parts) {
  Samples all;
  for (const Samples& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  return all;
}

TEST_CASE("every sample of an epoch has its turn, on as many ranks as there are", "[elastic]") {
  const bool shuffle = GENERATE(true, false);
  const int ranks = GENERATE(1, 2, 3, 5);
  const auto all = given(
      ranks, 4, 100, [](ElasticSampler& sampler) { sampler.set_epoch(3); },
      ElasticSampler(17, shuffle, 5));
  for (const Samples& one : all) CHECK(one.size() == all.front().size());
  const Samples samples = joined(all);
  CHECK(samples.size() == (17U + static_cast<unsigned>(ranks) - 1) / ranks * ranks);
  CHECK(std::set<std::size_t>(samples.begin(), samples.end()).size() == 17);
}

TEST_CASE("what has been processed is not given out again, to however many ranks", "[elastic]") {
  const int before = GENERATE(2, 3);
  const int after = GENERATE(1, 2, 4);
  const auto first = given(
      before, 2, 2, [](ElasticSampler& sampler) { sampler.set_epoch(1); }, ElasticSampler(24));
  const auto rest = given(
      after, 2, 100,
      [&](ElasticSampler& sampler) { sampler.load(1, 4 * static_cast<std::size_t>(before)); },
      ElasticSampler(24));
  Samples all = joined({joined(first), joined(rest)});
  CHECK(all.size() == 24);
  CHECK(std::unique(all.begin(), all.end()) == all.end());
}

TEST_CASE("a sampler counts what all ranks have processed", "[elastic]") {
  reset_fake_job(4);
  ElasticSampler sampler(10);
  CHECK(sampler.remaining() == 3);
  CHECK(sampler.next(2)->size() == 2);
  sampler.record(2);
  CHECK(sampler.processed() == 8);
  CHECK(sampler.next(2)->size() == 1);
  sampler.record(1);
  CHECK(sampler.processed() == 10);  // of 12, two of them twice
  CHECK_FALSE(sampler.next(2));
  sampler.reset();
  CHECK_FALSE(sampler.next(2));
  const ElasticSampler fresh(10);
  sampler.set_epoch(1);
  CHECK(sampler.epoch() == 1);
  CHECK(sampler.processed() == 0);
  CHECK(*sampler.next(3) != *ElasticSampler(fresh).next(3));
  CHECK_THAT(error_of([&] { sampler.next(0); }), Contains("a batch of 0 samples"));
  CHECK_FALSE(ElasticSampler(0).next(1));
}

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
  sampler.record(5);
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
  CHECK(sampler.remaining() == 34);
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
