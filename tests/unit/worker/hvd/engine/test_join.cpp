// Ranks that run out of work take part in what the others still do.
#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/engine/engine_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::DataType;
using hvd::ErrorCode;
using hvd::ReduceOp;

namespace {

using Hosts = std::vector<std::size_t>;

float reduce_one(Engine& engine, float value, ReduceOp op, const std::string& name = {}) {
  Operation operation;
  operation.kind = OpKind::allreduce;
  operation.input = operation.output = &value;
  operation.count = 1;
  operation.reduction.op = op;
  operation.name = name;
  engine.run(operation);
  return value;
}

}  // namespace

TEST_CASE("a rank that has joined takes part in groups", "[engine][join]") {
  const Hosts hosts = GENERATE(Hosts{3}, Hosts{2, 1});
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::max, ReduceOp::adasum);
  const std::size_t count = GENERATE(2U, 5000U);
  CAPTURE(hosts, op, count);
  EngineRanks ranks(hosts);
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          for (int round = 0; round < 3 && rank != 0; ++round) {
            std::vector<float> ones(count, 1);
            std::vector<float> others(count + 1, 2);
            Operation operation;
            operation.kind = OpKind::allreduce;
            operation.reduction.op = op;
            operation.parts = {{ones.data(), ones.data(), ones.size()},
                               {others.data(), others.data(), others.size()}};
            engine.run(operation);
            // The adaptive sum of equal vectors is each of them.
            const float times = op == ReduceOp::sum ? 2 : 1;
            for (const float value : ones) expect(std::abs(value - times) < 1e-6, "first buffer");
            for (const float value : others)
              expect(std::abs(value - 2 * times) < 1e-6, "second buffer");
          }
          engine.join();
        })) == "");
}

TEST_CASE("ranks with batches of their own number end together", "[engine][join]") {
  const Hosts hosts = GENERATE(Hosts{2}, Hosts{4}, Hosts{2, 1});
  CAPTURE(hosts);
  EngineRanks ranks(hosts);
  const int last = static_cast<int>(ranks.size()) - 1;
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          for (int epoch = 0; epoch < 5; ++epoch) {
            // Rank r has 3 * (r + 1) batches, so the last one joins last.
            const std::size_t batches = 3 * (rank + 1);
            for (std::size_t batch = 0; batch < batches; ++batch) {
              std::vector<std::vector<float>> tensors(3, std::vector<float>(50, 1));
              std::vector<std::uint64_t> ids;
              for (std::size_t i = 0; i < tensors.size(); ++i) {
                Operation operation;
                operation.kind = OpKind::allreduce;
                operation.input = operation.output = tensors[i].data();
                operation.count = tensors[i].size();
                operation.reduction.op = i == 2 ? ReduceOp::average : ReduceOp::sum;
                operation.name = i == 0 ? "" : "t" + std::to_string(i);
                ids.push_back(engine.submit(operation));
              }
              for (const auto id : ids) engine.synchronize(id);
              std::size_t working = 0;
              for (std::size_t other = 0; other < ranks.size(); ++other)
                working += batch < 3 * (other + 1) ? 1 : 0;
              expect(tensors[0][49] == static_cast<float>(working), "wrong sum");
              expect(tensors[1][49] == static_cast<float>(working), "wrong named sum");
              const float average = static_cast<float>(working) / static_cast<float>(ranks.size());
              expect(std::abs(tensors[2][49] - average) < 1e-6, "wrong average");
            }
            expect(engine.join() == last, "somebody else joined last");
            expect(reduce_one(engine, 1, ReduceOp::sum) == static_cast<float>(ranks.size()),
                   "wrong sum after join");
          }
        })) == "");
}

TEST_CASE("whoever has joined changes nothing", "[engine][join]") {
  const Hosts hosts = GENERATE(Hosts{3}, Hosts{1, 2});
  CAPTURE(hosts);
  EngineRanks ranks(hosts);
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          if (rank == 1) {
            engine.join();
            return;
          }
          const auto mine = static_cast<float>(rank + 2);  // 2 and 4
          expect(reduce_one(engine, -mine, ReduceOp::max) == -2, "max");
          expect(reduce_one(engine, mine, ReduceOp::min) == 2, "min");
          expect(reduce_one(engine, mine, ReduceOp::product) == 8, "product");
          expect(std::signbit(reduce_one(engine, -0.0F, ReduceOp::sum)), "a sum of -0");
          expect(std::signbit(reduce_one(engine, -0.0F, ReduceOp::average)), "an average of -0");
          expect(std::isnan(reduce_one(engine, rank == 0 ? NAN : mine, ReduceOp::max)), "NaN");
          Operation barrier;
          engine.run(barrier);
          std::vector<float> gathered(3, 9);
          Operation gather;
          gather.kind = OpKind::allgather;
          gather.input = &mine;
          gather.output = gathered.data();
          gather.count = 1;
          engine.run(gather);
          expect(gathered == std::vector<float>{2, 0, 4}, "allgather");
          float value = mine;
          Operation broadcast;
          broadcast.kind = OpKind::broadcast;
          broadcast.output = &value;
          broadcast.count = 1;
          broadcast.root = 2;
          engine.run(broadcast);
          expect(value == 4, "broadcast");
          broadcast.root = 1;
          const auto error = error_of([&] { engine.run(broadcast); });
          expect(error && error->code == ErrorCode::invalid_argument &&
                     error->text ==
                         "broadcast(float32, 1 element, root 1): its root, rank 1, has "
                         "joined",
                 error ? error->text : "no error");
          // A factor that is infinite in float32 makes NaN of the 0 that stands for rank 1.
          Operation scaled;
          scaled.kind = OpKind::allreduce;
          scaled.input = &mine;
          scaled.output = &value;
          scaled.count = 1;
          scaled.reduction = {hvd::DataType::float32, ReduceOp::sum, 1e39, 1};
          const auto no_zero = error_of([&] { engine.run(scaled); });
          expect(
              no_zero && no_zero->text.find("no element that changes nothing") != std::string::npos,
              no_zero ? no_zero->text : "no error");
          std::vector<float> sent{mine, mine, mine};
          std::vector<float> got(3, 9);
          Operation exchange;
          exchange.kind = OpKind::alltoall;
          exchange.input = sent.data();
          exchange.output = got.data();
          exchange.count = 1;
          engine.run(exchange);
          expect(got == std::vector<float>{2, 0, 4}, "alltoall");
          exchange.counts = exchange.receive_counts = {1, 1, 1};
          std::fill(got.begin(), got.end(), 9.0F);
          engine.run(exchange);
          expect(got == std::vector<float>{2, 0, 4}, "alltoall with counts");
          Operation scatter;
          scatter.kind = OpKind::reducescatter;
          scatter.input = sent.data();
          scatter.output = got.data();
          scatter.count = 1;
          engine.run(scatter);
          expect(got[0] == 6, "reducescatter");
          engine.join();
        })) == "");
}

TEST_CASE("a rank that has joined calls nothing", "[engine][join]") {
  EngineRanks ranks({2});
  std::thread joins([&] { ranks[0].join(); });
  // It has joined when another rank's operation goes through.
  reduce_one(ranks[1], 1, ReduceOp::sum);
  const auto error = error_of([&] { reduce_one(ranks[0], 1, ReduceOp::sum); });
  REQUIRE(error);
  CHECK(error->code == ErrorCode::invalid_argument);
  CHECK(ranks[1].join() == 1);
  joins.join();
}

TEST_CASE("a rank that has joined hears of a lost one", "[engine][join]") {
  EngineRanks ranks({3});
  const RankErrors errors = ranks.run([&](Engine& engine, std::size_t rank) {
    if (rank == 2) {
      for (std::size_t other = 0; other < 2; ++other)
        ranks[other].communicator().peer_gone(2, {ErrorCode::peer_lost, "rank 2 is gone"});
      return;
    }
    engine.join();
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(errors[rank]);
    CHECK(errors[rank]->code == ErrorCode::peer_lost);
  }
}
