// Ranks that call the same tensor in different ways all get an error that names both sides, and go
// on.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/trouble.h"
#include "tests/unit/worker/hvd/engine/engine_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::DataType;
using hvd::ErrorCode;
using hvd::ReduceOp;

namespace {

Operation plain(std::vector<float>& data) {
  Operation operation;
  operation.kind = OpKind::allreduce;
  operation.input = operation.output = data.data();
  operation.count = 8;
  operation.shape = {2, 4};
  return operation;
}

}  // namespace

TEST_CASE("every mismatch is an error on every rank, and the job goes on", "[engine][mismatch]") {
  using HostSizes = std::vector<std::size_t>;
  const HostSizes hosts = GENERATE(HostSizes{3}, HostSizes{1, 2});
  const std::string name = GENERATE("", "gradient");
  CAPTURE(hosts, name);
  const std::string first =
      "rank 0 called allreduce(float32, 8 elements, sum, shape [2, 4]), but "
      "rank 2 called ";
  struct Change {
    std::string words;
    std::function<void(Operation&)> apply;
  };
  const std::vector<Change> changes{
      {"allreduce(int32, 8 elements, sum, shape [2, 4])",
       [](Operation& o) { o.reduction.type = DataType::int32; }},
      {"broadcast(float32, 8 elements, root 0, shape [2, 4])",
       [](Operation& o) { o.kind = OpKind::broadcast; }},
      {"allreduce(float32, 8 elements, sum, shape [4, 2])",
       [](Operation& o) {
         o.shape = {4, 2};
       }},
      {"allreduce(float32, 8 elements, sum, shape [8])", [](Operation& o) { o.shape = {8}; }},
      {"allreduce(float32, 6 elements, sum, shape [2, 3])",
       [](Operation& o) {
         o.count = 6;
         o.shape = {2, 3};
       }},
      {"allreduce(float32, 8 elements, max, shape [2, 4])",
       [](Operation& o) { o.reduction.op = ReduceOp::max; }},
      {"allreduce(float32, 8 elements, sum, shape [2, 4], prescale 0.5)",
       [](Operation& o) { o.reduction.prescale = 0.5; }},
      {"allreduce(float32, 8 elements, sum, shape [2, 4], postscale 2)",
       [](Operation& o) { o.reduction.postscale = 2; }},
      {"barrier()", [](Operation& o) { o.kind = OpKind::barrier; }},
  };
  EngineRanks ranks(hosts, [](EngineOptions& /*options*/, int /*rank*/) {});
  for (const Change& change : changes) {
    CAPTURE(change.words);
    const bool blocking = GENERATE(false, true);
    const RankErrors errors = ranks.run([&](Engine& engine, std::size_t rank) {
      std::vector<float> data(8, 1);
      std::vector<float> other(8, 1);
      Operation operation = plain(data);
      operation.name = name;
      if (rank == 2) change.apply(operation);
      Operation good = plain(other);
      good.name = "good";
      const auto id = engine.submit(good);
      const auto error = error_of([&] {
        if (blocking)
          engine.run(operation);
        else
          engine.synchronize(engine.submit(operation));
      });
      engine.synchronize(id);
      expect(other[7] == 3, "the good one is wrong");
      expect(data[7] == 1, "the bad one has written");
      expect(error.has_value() && error->code == ErrorCode::mismatch, "no mismatch");
      const std::string wanted = (name.empty() ? "" : "'" + name + "': ") + first + change.words;
      expect(error->text == wanted, error->text + "\nis not\n" + wanted);
    });
    CHECK(first_error(errors) == "");
  }
}

TEST_CASE("roots and counts that differ are told", "[engine][mismatch]") {
  EngineRanks ranks({2});
  const auto told = [&](const std::function<void(Operation&, std::size_t)>& change) {
    std::vector<std::string> texts(2);
    CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
            std::vector<float> input(8);
            std::vector<float> output(8);
            Operation operation;
            operation.input = input.data();
            operation.output = output.data();
            operation.count = 4;
            change(operation, rank);
            const auto error = error_of([&] { engine.run(operation); });
            expect(error && error->code == ErrorCode::mismatch, "no mismatch");
            texts[rank] = error->text;
          })) == "");
    CHECK(texts[0] == texts[1]);
    return texts[0];
  };
  CHECK(told([](Operation& operation, std::size_t rank) {
          operation.kind = OpKind::broadcast;
          operation.root = static_cast<int>(rank);
        }) ==
        "rank 0 called broadcast(float32, 4 elements, root 0), but rank 1 called "
        "broadcast(float32, 4 elements, root 1)");
  CHECK(told([](Operation& operation, std::size_t rank) {
          operation.kind = OpKind::reducescatter;
          operation.counts =
              rank == 0 ? std::vector<std::size_t>{3, 1} : std::vector<std::size_t>{1, 3};
        }) ==
        "rank 0 called reducescatter(float32, 4 elements, sum, counts 3 1), but rank 1 "
        "called reducescatter(float32, 4 elements, sum, counts 1 3)");
}

TEST_CASE("counts that vary must be the same on all ranks", "[engine][mismatch]") {
  using HostSizes = std::vector<std::size_t>;
  const HostSizes hosts = GENERATE(HostSizes{3}, HostSizes{1, 2});
  const std::string name = GENERATE("", "rows");
  const bool waits = GENERATE(true, false);
  CAPTURE(hosts, name, waits);
  EngineRanks ranks(hosts);
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank) {
    std::vector<float> input(8, 1);
    std::vector<float> output(24);
    Operation gather;
    gather.kind = OpKind::allgather;
    gather.name = name;
    gather.input = input.data();
    gather.output = output.data();
    gather.varying_counts = true;
    const auto run = [&](std::vector<std::size_t> counts) {
      gather.counts = std::move(counts);
      if (waits)
        engine.run(gather);
      else
        engine.synchronize(engine.submit(gather));
    };
    // Ranks repeat themselves, then one of them has other counts.
    for (std::size_t i = 0; i < 20; ++i) run({i % 8, 2, 3});
    std::string text;
    try {
      run({1, 2, rank == 2 ? std::size_t{4} : std::size_t{3}});
    } catch (const hvd::Error& error) {
      expect(error.code() == ErrorCode::mismatch, "another error");
      text = error.what();
    }
    const std::string prefix = name.empty() ? "" : "'" + name + "': ";
    expect(text == prefix +
                       "rank 0 called allgather(float32, 6 elements in all, varying counts 1 2 3), "
                       "but rank 2 called allgather(float32, 7 elements in all, varying counts 1 2 "
                       "4)",
           text);
    run({3, 2, 1});
    expect(output[0] == 1 && output[5] == 1, "after it");
  });
  CHECK(first_error(errors) == "");
}
