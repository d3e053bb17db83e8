#include <algorithm>
#include <cmath>
#include <set>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/checkpoint/checked_file.h"
#include "worker/labs/data/files/split_mix.h"

namespace hvdrun {
namespace {

// The global batch of so many of each rank.
std::size_t of_all(std::size_t each, int size) { return each * static_cast<std::size_t>(size); }

std::vector<std::uint32_t> global_batch(const EpochSampler& sampler, std::size_t step,
                                        std::size_t batch_size, int size) {
  std::vector<std::uint32_t> samples;
  for (int rank = 0; rank < size; ++rank) {
    const Pass pass = sampler.pass(of_all(batch_size, size), 1'000'000, rank, size);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < step; ++i) begin += pass.batch_sizes.at(i);
    const auto part = pass.samples.begin() + static_cast<std::ptrdiff_t>(begin);
    samples.insert(samples.end(), part,
                   part + static_cast<std::ptrdiff_t>(pass.batch_sizes.at(step)));
  }
  return samples;
}

TEST_CASE("an epoch is a permutation that follows from seed and epoch", "[sampler]") {
  const EpochSampler sampler(1000, 1, 0);
  const auto order = global_batch(sampler, 0, 1000, 1);
  CHECK(std::set<std::uint32_t>(order.begin(), order.end()).size() == 1000);
  CHECK(*std::max_element(order.begin(), order.end()) == 999);
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  CHECK(global_batch(EpochSampler(1000, 1, 0), 0, 1000, 1) == order);
  CHECK(global_batch(EpochSampler(1000, 1, 1), 0, 1000, 1) != order);
  CHECK(global_batch(EpochSampler(1000, 2, 0), 0, 1000, 1) != order);
}

TEST_CASE("equal global batch sizes give equal global batches", "[sampler]") {
  const EpochSampler sampler(1000, 1, 0);
  CHECK(sampler.steps(64) == 16);
  CHECK(sampler.steps(64) == 16);
  for (std::size_t step = 0; step < 16; ++step) {
    const auto alone = global_batch(sampler, step, 64, 1);
    CHECK(global_batch(sampler, step, 16, 4) == alone);
    CHECK(global_batch(sampler, step, 32, 2) == alone);
  }
  CHECK(sampler.steps(1000) == 1);
  CHECK(sampler.steps(999) == 2);
  CHECK(sampler.steps(1004) == 0);
  CHECK(sampler.pass(1004, 9, 0, 4).batch_sizes.empty());
}

TEST_CASE("an epoch has every sample once, and no step more than was asked for", "[sampler]") {
  for (const std::size_t samples : {64U, 100U, 127U, 1000U, 1003U}) {
    for (const int size : {1, 2, 3, 4, 7}) {
      for (const std::size_t batch_size : {2U, 3U, 9U}) {
        CAPTURE(samples, size, batch_size);
        const EpochSampler sampler(samples, 1, 5);
        std::vector<int> seen(samples);
        for (int rank = 0; rank < size; ++rank) {
          const Pass pass = sampler.pass(of_all(batch_size, size), 1'000'000, rank, size);
          CHECK(pass.augment);
          CHECK(pass.epoch == 5);
          CHECK(pass.batch_sizes.size() == sampler.steps(of_all(batch_size, size)));
          CHECK(sampler.steps(of_all(batch_size, size)) ==
                steps_of(samples, of_all(batch_size, size)));
          std::size_t sum = 0;
          for (std::size_t step = 0; step < pass.batch_sizes.size(); ++step) {
            CHECK(pass.batch_sizes[step] >= 1);
            CHECK(pass.batch_sizes[step] <= batch_size);
            CHECK(pass.batch_sizes[step] ==
                  sampler.part(step, of_all(batch_size, size), rank, size).size());
            sum += pass.batch_sizes[step];
          }
          CHECK(sum == pass.samples.size());
          for (const std::uint32_t sample : pass.samples) ++seen.at(sample);
        }
        CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
      }
    }
  }
  CHECK(EpochSampler(100, 1, 0).pass(20, 3, 0, 2).batch_sizes.size() == 3);
  // One sample less than two steps take: not one step of nearly twice as many.
  CHECK(EpochSampler(99, 1, 0).pass(50, 9, 0, 1).batch_sizes == std::vector<std::size_t>{49, 50});
}

TEST_CASE("the global batch divides the samples: every step has as many as were asked for",
          "[sampler]") {
  for (const int size : {1, 4}) {
    const EpochSampler sampler(960, 1, 0);
    CHECK(sampler.steps(of_all(16, size)) == 960U / 16 / static_cast<std::size_t>(size));
    for (const std::size_t of_step : sampler.pass(of_all(16, size), 99, 0, size).batch_sizes)
      CHECK(of_step == 16);
  }
}

TEST_CASE("a rank without a sample in a step takes one that counts nothing", "[sampler]") {
  for (const std::size_t samples : {4U, 5U, 6U, 9U, 100U}) {
    for (const int size : {2, 3, 4}) {
      CAPTURE(samples, size);
      const EpochSampler sampler(samples, 1, 0);
      std::vector<int> seen(samples);
      std::vector<Pass> passes;
      for (int rank = 0; rank < size; ++rank) {
        passes.push_back(sampler.pass(of_all(1, size), 1'000'000, rank, size));
        CHECK(passes.back().batch_sizes ==
              std::vector<std::size_t>(sampler.steps(of_all(1, size)), 1));
      }
      for (std::size_t step = 0; step < sampler.steps(of_all(1, size)); ++step) {
        double shares = 0;
        for (int rank = 0; rank < size; ++rank) {
          const double share = sampler.share(step, of_all(1, size), rank, size);
          shares += share;
          CHECK((share > 0) == (sampler.part(step, of_all(1, size), rank, size).size() == 1));
          if (share > 0) ++seen.at(passes[static_cast<std::size_t>(rank)].samples.at(step));
        }
        CHECK(shares == Approx(size));
      }
      CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    }
  }
  const EpochSampler two_of_three(2 + 3, 1, 0);
  CHECK(two_of_three.share(0, 3, 0, 3) == 0);
}

TEST_CASE("a share of a test is in order and as it is", "[sampler]") {
  const Pass pass = shard_pass(10, 2, 1, 2);
  CHECK(pass.samples == std::vector<std::uint32_t>{5, 6, 7, 8, 9});
  CHECK(pass.batch_sizes == std::vector<std::size_t>{2, 2, 1});
  CHECK_FALSE(pass.augment);
  CHECK(shard_pass(1, 2, 0, 2).batch_sizes.empty());
}

TEST_CASE("shards cover everything once", "[sampler]") {
  for (const std::size_t count : {0U, 1U, 3U, 2000U, 2003U}) {
    for (const int size : {1, 2, 3, 7}) {
      std::size_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const IndexRange range = shard(count, rank, size);
        CHECK(range.begin == next);
        CHECK(range.size() <= count / static_cast<std::size_t>(size) + 1);
        next = range.end;
      }
      CHECK(next == count);
    }
  }
}

TEST_CASE("the global batches of an epoch stay when the ranks change in its middle", "[sampler]") {
  const EpochSampler sampler(100, 1, 0);
  const auto samples_of = [&](std::size_t first, std::size_t end, int size) {
    std::vector<std::vector<std::uint32_t>> steps(end - first);
    for (int rank = 0; rank < size; ++rank) {
      const Pass pass = sampler.pass(12, end, rank, size, first);
      REQUIRE(pass.batch_sizes.size() == end - first);
      std::size_t at = 0;
      for (std::size_t i = 0; i < steps.size(); ++i)
        for (std::size_t k = 0; k < pass.batch_sizes[i]; ++k)
          steps[i].push_back(pass.samples[at++]);
    }
    return steps;
  };
  const auto all = samples_of(0, sampler.steps(12), 4);
  REQUIRE(all.size() == 9);
  for (const int size : {1, 2, 3, 5}) {
    const auto rest = samples_of(4, sampler.steps(12), size);
    CHECK(std::equal(rest.begin(), rest.end(), all.begin() + 4, all.end()));
    for (std::size_t step = 0; step < all.size(); ++step) {
      double shares = 0;
      for (int rank = 0; rank < size; ++rank) shares += sampler.share(step, 12, rank, size);
      CHECK(std::abs(shares - size) < 1e-9);
    }
  }
}

TEST_CASE("a checksum finds every cut and every flipped bit", "[checksum]") {
  const std::string content = std::string("some content") + '\0' + "after a zero";
  const std::string bytes = add_checksum(content);
  std::string error;
  CHECK(verify_checksum(bytes, error) == content);
  CHECK(error.empty());
  CHECK(verify_checksum(add_checksum(""), error) == "");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(verify_checksum(std::string_view(bytes).substr(0, size), error));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    CHECK_FALSE(verify_checksum(bad, error));
    CHECK(error.find('\n') == std::string::npos);
  }
  CHECK_FALSE(verify_checksum(bytes + "x", error));
}

// Batches of whatever sizes, changed after any step: no sample twice, none left out.
TEST_CASE("each sample has its turn once, however the global batch changes", "[sampler]") {
  SplitMix random(11, 0);
  for (int run = 0; run < 200; ++run) {
    const std::size_t samples = 1 + random.below(400);
    std::vector<std::uint32_t> seen;
    for (std::size_t taken = 0; taken < samples;) {
      const std::size_t global = 1 + random.below(samples);
      const EpochSampler sampler(samples, 3, 1, taken);
      const std::size_t first = sampler.first(global);
      const std::size_t left = sampler.steps(global) - first;
      CHECK(left == (samples - taken + global - 1) / global);
      // The numbers are those that the epoch would end with.
      CHECK(sampler.steps(global) == std::max(left, steps_of(samples, global)));
      const std::size_t until = first + 1 + random.below(left);
      for (std::size_t step = first; step < until; ++step) {
        CHECK(sampler.step(step, global).size() <= global);
        const auto batch = sampler.pass(global, step + 1, 0, 1, step).samples;
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
      taken = sampler.step(until - 1, global).end;
      CHECK(taken == seen.size());
    }
    std::sort(seen.begin(), seen.end());
    CHECK(seen.size() == samples);
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  }
}

}  // namespace
}  // namespace hvdrun
