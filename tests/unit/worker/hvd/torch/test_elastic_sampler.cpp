// The samples that each rank gets, and that each counts once whatever happens to the ranks.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"
#include "worker/hvd/elastic/first_step.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using hvd::elastic::ElasticSampler;
using test::error_of;
using test::fake_job;
using test::reset_fake_job;
using Samples = std::vector<std::size_t>;
using Padding = ElasticSampler::Padding;

// The samplers of all ranks of a job, of which each is asked as that rank.
class Ranks {
 public:
  Ranks(std::size_t ranks, const ElasticSampler& sampler) : samplers_(ranks, sampler) { reset(); }

  std::size_t size() const { return samplers_.size(); }
  void as(std::size_t rank) const {
    reset_fake_job(static_cast<int>(size()));
    fake_job().rank = static_cast<int>(rank);
  }
  template <class What>
  void each(What what) {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      as(rank);
      what(samplers_[rank]);
    }
  }
  void reset() {
    each([](ElasticSampler& one) { one.reset(); });
  }
  // All parts of the next batch, by rank; none at the end of the epoch.
  std::vector<Samples> next(std::size_t batch) {
    std::vector<Samples> parts;
    std::size_t ends = 0;
    each([&](ElasticSampler& one) {
      if (auto part = one.next(batch))
        parts.push_back(*part);
      else
        ++ends;
    });
    CHECK((ends == 0 || ends == size()));
    return parts;
  }
  // Some are lost, and as many as are asked for come with the state of one that stays.
  void change(std::size_t ranks) {
    samplers_.resize(ranks, samplers_.front());
    reset();
  }
  ElasticSampler& operator[](std::size_t rank) {
    as(rank);
    return samplers_[rank];
  }

 private:
  std::vector<ElasticSampler> samplers_;
};

Samples joined(const std::vector<Samples>& parts) {
  Samples all;
  for (const Samples& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_CASE("a batch is dealt by position, and parts differ by one", "[elastic]") {
  Ranks ranks(4, ElasticSampler(100, false));
  const auto parts = ranks.next(10);
  CHECK(parts == std::vector<Samples>{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}});
  double weights = 0;
  ranks.each([&](ElasticSampler& one) { weights += one.weight(); });
  CHECK(weights == Approx(4));
  CHECK(ranks[0].weight() == Approx(1.2));
  CHECK(ranks.next(2) == std::vector<Samples>{{10}, {11}, {}, {}});
  CHECK(ranks[3].weight() == 0);
}

TEST_CASE("padding makes parts as large", "[elastic]") {
  Ranks ranks(3, ElasticSampler(8, false, 0, Padding::repeat));
  CHECK(ranks.next(4) == std::vector<Samples>{{0, 1}, {2, 3}, {0, 1}});
  CHECK(ranks.next(100) == std::vector<Samples>{{4, 5}, {6, 7}, {4, 5}});
  CHECK(ranks[2].weight() == 1);
  CHECK(ranks.next(4).empty());
  ranks.each([](ElasticSampler& one) {
    one.record();
    one.record();
    CHECK(one.processed() == 8);  // each once
  });
}

TEST_CASE("ranks that are new get no samples in their first step", "[elastic]") {
  Ranks ranks(4, ElasticSampler(100, false));
  first_step().begin({1, 3}, [] {});
  CHECK(hvd::elastic::contributors() == 2);
  CHECK(ranks.next(10) ==
        std::vector<Samples>{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {0, 1, 2, 3, 4}});
  double weights = 0;
  ranks.each([&](ElasticSampler& one) { weights += one.weight(); });
  CHECK(weights == Approx(2));  // the divisor of an average of contributors
  CHECK(ranks[1].weight() == 0);
  hvd::elastic::catch_up();
  ranks.each([](ElasticSampler& one) { one.record(); });
  CHECK(ranks.next(4) == std::vector<Samples>{{10}, {11}, {12}, {13}});

  Ranks padded(3, ElasticSampler(8, false, 0, Padding::repeat));
  first_step().begin({0}, [] {});
  CHECK(padded.next(4) == std::vector<Samples>{{0, 1}, {0, 1}, {2, 3}});
  CHECK(padded[0].weight() == 0);
  CHECK(padded[2].weight() == 1);
  first_step().end();
}

TEST_CASE("which samples make a batch does not depend on the ranks", "[elastic]") {
  const auto batches_of = [](std::size_t count) {
    Ranks ranks(count, ElasticSampler(103, true, 7));
    std::vector<Samples> batches;
    for (auto parts = ranks.next(12); !parts.empty(); parts = ranks.next(12))
      batches.push_back(joined(parts));
    return batches;
  };
  const auto expected = batches_of(1);
  CHECK(expected.size() == 9);
  CHECK(expected.back().size() == 7);
  for (const std::size_t count : {2U, 3U, 5U, 20U}) CHECK(batches_of(count) == expected);
}

TEST_CASE("a sampler tells where it stands", "[elastic]") {
  reset_fake_job(4);
  ElasticSampler sampler(10);
  CHECK(sampler.remaining() == 10);
  sampler.next(8);
  sampler.next(8);
  CHECK(sampler.remaining() == 0);
  CHECK(sampler.processed() == 0);
  sampler.record();
  CHECK(sampler.processed() == 8);
  sampler.reset();
  CHECK(sampler.remaining() == 2);
  sampler.record();  // nothing is dealt
  CHECK(sampler.processed() == 8);
  const ElasticSampler fresh(10);
  sampler.set_epoch(1);
  CHECK(sampler.epoch() == 1);
  CHECK(sampler.processed() == 0);
  CHECK(*sampler.next(10) != *ElasticSampler(fresh).next(10));
  CHECK_THAT(error_of([&] { sampler.next(0); }), Contains("a batch of 0 samples"));
  CHECK_FALSE(ElasticSampler(0).next(1));
}

// A model's parameters are the samples that it has seen; a commit copies them with the sampler.
TEST_CASE("each sample counts once in the committed model, whatever happens", "[elastic]") {
  std::mt19937 random(20261129);
  const auto below = [&random](std::size_t end) { return random() % end; };
  for (int history = 0; history < 300; ++history) {
    CAPTURE(history);
    const std::size_t samples = below(4) == 0 ? below(4) : below(60);
    const std::size_t batch = 1 + below(12);
    const bool pads = below(3) == 0;
    Ranks ranks(1 + below(6),
                ElasticSampler(samples, below(2) == 0, 3, pads ? Padding::repeat : Padding::none));
    struct Model {
      std::map<std::size_t, int> seen;  // in this epoch
      std::uint64_t epoch = 0;
      std::size_t processed = 0;
    } model, committed;
    const auto commit = [&] {
      model.epoch = ranks[0].epoch();
      model.processed = ranks[0].processed();
      committed = model;
    };
    commit();
    const auto go_back = [&](std::size_t count) {
      model = committed;
      ranks.change(count);
      ranks.each([&](ElasticSampler& one) { one.load(model.epoch, model.processed); });
    };
    int epochs = 0;
    for (int event = 0; epochs < 3 && event < 2'000; ++event) {
      switch (below(12)) {
        case 0:  // a loss, and perhaps somebody new in its place
          go_back(1 + below(6));
          break;
        case 1:  // somebody comes or leaves at a commit
          commit();
          ranks.change(1 + below(6));
          break;
        case 2:
          commit();
          break;
        default: {
          const auto parts = ranks.next(batch);
          if (below(10) == 0 && !parts.empty()) {  // a loss before the step is done
            go_back(1 + below(6));
            break;
          }
          if (!parts.empty()) {
            const Samples all = joined(parts);
            // A sample that is used again to pad counts for nothing.
            for (const std::size_t sample : std::set<std::size_t>(all.begin(), all.end()))
              ++model.seen[sample];
            if (!pads) CHECK(std::set<std::size_t>(all.begin(), all.end()).size() == all.size());
            ranks.each([](ElasticSampler& one) { one.record(); });
            break;
          }
          CHECK(model.seen.size() == samples);
          for (const auto& [sample, times] : model.seen) CHECK(times == 1);
          ++epochs;
          model.seen.clear();
          ranks.each([&](ElasticSampler& one) {
            one.set_epoch(static_cast<std::uint64_t>(one.epoch()) + 1);
          });
          commit();
        }
      }
    }
    CHECK(epochs == 3);
  }
}

}  // namespace
}  // namespace hvdrun
