// A rank that has joined while the others go on with GPU memory: as with memory of the host, over
// the fake driver and NCCL.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/gpu/driver_calls.h"
#include "tests/unit/worker/hvd/engine/gpu_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::ErrorCode;
using hvd::ReduceOp;

namespace {

using Row = std::vector<float>;
using Counts = std::vector<std::size_t>;

// `input` of the rank, and what the same operation gives on the host and on the GPU.
Row run_on_both(Engine& engine, GpuStream& user, const Operation& operation, const Row& input,
                std::size_t results) {
  Row on_host(results, -1);
  Row on_device(results, -1);
  Operation run = operation;
  const bool in_place = operation.kind == OpKind::broadcast;
  const auto use = [&](Row& output) {
    if (in_place) output = input;
    run.input = in_place ? output.data() : input.data();
    run.output = output.data();
  };
  use(on_host);
  engine.run(run);
  use(on_device);
  run.device = std::make_shared<DeviceUse>();
  run.device->stream = user.get();
  engine.run(run);
  GpuRanks::drain(user);
  // An average NCCL divides before it adds.
  const float off = operation.reduction.op == ReduceOp::average ? 1e-6F : 0;
  const bool same =
      std::equal(on_device.begin(), on_device.end(), on_host.begin(),
                 [off](float a, float b) { return std::abs(a - b) <= off * std::abs(b); });
  expect(same, std::string(name_of(operation.kind)) + ": not as on the host");
  return on_device;
}

Operation operation_for(OpKind kind, std::size_t count, const std::string& name = {}) {
  Operation operation;
  operation.kind = kind;
  operation.count = count;
  operation.reduction = {hvd::DataType::float32, ReduceOp::sum, 1, 1};
  operation.name = name;
  return operation;
}

// Each rank that has not joined gets the same words.
void check_error(Engine& engine, const Operation& operation, ErrorCode code,
                 const std::string& words) {
  const auto error = error_of([&] { engine.run(operation); });
  expect(error && error->code == code && error->text == words, error ? error->text : "no error");
}

}  // namespace

TEST_CASE("alltoall, reducescatter and broadcast on GPUs while a rank has joined",
          "[engine][gpu][join]") {
  const auto hosts = GENERATE(Counts{3}, Counts{1, 2});
  GpuRanks ranks(hosts);
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    if (rank == 1) {
      engine.join();
      return;
    }
    const auto own = static_cast<float>(rank + 2);  // 2 and 4
    const Row six{own, own + 10, own + 20, own + 30, own + 40, own + 50};
    const auto at = [&](std::size_t i) { return Row{six[2 * i], six[2 * i + 1]}; };
    expect(at(0)[0] == own, "the test itself");

    Operation exchange = operation_for(OpKind::alltoall, 2, "exchange");
    const float part = rank == 0 ? 0.0F : 40.0F;
    expect(run_on_both(engine, user, exchange, six, 6) ==
               Row{2 + part, 12 + part, 0, 0, 4 + part, 14 + part},
           "alltoall");
    // To and from rank 1 as much as its others say: rank r sends it r + 1, and gets 2 from it.
    exchange = operation_for(OpKind::alltoall, 0);
    exchange.counts = {1, rank + 1, 1};
    exchange.receive_counts = {1, 2, 1};
    const float first = rank == 0 ? 2.0F : 2.0F + 20.0F;
    const float last = rank == 0 ? 4.0F : 4.0F + 40.0F;
    expect(run_on_both(engine, user, exchange, six, 4) == Row{first, 0, 0, last},
           "alltoall with counts");

    Operation scatter = operation_for(OpKind::reducescatter, 2, "scatter");
    const float shift = rank == 0 ? 0.0F : 40.0F;
    expect(run_on_both(engine, user, scatter, six, 2) == Row{6 + 2 * shift, 26 + 2 * shift}, "sum");
    scatter.reduction.op = ReduceOp::average;
    const float mean = run_on_both(engine, user, scatter, six, 2)[0];
    expect(std::abs(mean - (6 + 2 * shift) / 3) < 1e-5F, "average");
    scatter.reduction.op = ReduceOp::max;
    expect(run_on_both(engine, user, scatter, six, 2) == Row{4 + shift, 14 + shift}, "max");
    scatter.reduction.op = ReduceOp::product;
    expect(run_on_both(engine, user, scatter, six, 2)[0] == (2 + shift) * (4 + shift), "product");
    scatter = operation_for(OpKind::reducescatter, 0);
    scatter.counts = {1, 3, 2};
    const Row got = run_on_both(engine, user, scatter, six, scatter.counts[rank]);
    expect(got == (rank == 0 ? Row{6} : Row{86, 106}), "reducescatter with counts");

    Operation broadcast = operation_for(OpKind::broadcast, 6, "broadcast");
    broadcast.root = 2;
    expect(run_on_both(engine, user, broadcast, six, 6) == Row{4, 14, 24, 34, 44, 54}, "broadcast");
    engine.join();
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("what a rank that has joined cannot take part in is an error on all others",
          "[engine][gpu][join]") {
  GpuRanks ranks({3});
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    if (rank == 1) {
      engine.join();
      return;
    }
    Row six(6, 1);
    Row out(6);
    const auto on_device = [&](OpKind kind, std::size_t count, const std::string& name) {
      return on_gpu(kind, six.data(), out.data(), count, user, name);
    };
    Operation broadcast = on_device(OpKind::broadcast, 6, "data");
    broadcast.root = 1;
    check_error(engine, broadcast, ErrorCode::invalid_argument,
                "'data': broadcast(float32, 6 elements, root 1, on a GPU): its root, rank 1, has "
                "joined");
    Operation scatter = on_device(OpKind::reducescatter, 2, "scaled");
    scatter.reduction = {hvd::DataType::float32, ReduceOp::max, 2, 1};
    check_error(engine, scatter, ErrorCode::invalid_argument,
                "'scaled': " + describe(scatter) +
                    ": rank 1 has joined, and there is no element that changes nothing after a "
                    "prescale factor");
    // Between those that have not joined.
    Operation exchange = on_device(OpKind::alltoall, 0, "pairs");
    exchange.counts = {1, 1, 2};
    exchange.receive_counts = {1, 1, rank == 0 ? std::size_t{1} : 2};
    check_error(engine, exchange, ErrorCode::mismatch,
                "'pairs': alltoall: rank 0 sends 2 elements to rank 2, which expects 1");
    engine.join();
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("no process set is made, and no graph captured, while a rank has joined",
          "[engine][gpu][join]") {
  GpuRanks ranks({2});
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    float value = 1;
    const Operation sum = on_gpu(OpKind::allreduce, &value, &value, 1, user);
    engine.run(sum);
    GpuRanks::drain(user);
    if (rank == 1) {
      engine.join();
      return;
    }
    const auto refused = error_of([&] { engine.split_gpu({0}); });
    expect(refused && refused->text ==
                          "add_process_set(on GPUs): rank 1 has joined, and all ranks make a "
                          "process set",
           refused ? refused->text : "no error");
    graphs.begin(user.get());
    Operation captured = on_gpu(OpKind::allreduce, &value, &value, 1, user);
    const auto error = error_of([&] { engine.run(captured); });
    graphs.drop(user.get());
    expect(error && error->code == ErrorCode::invalid_argument &&
               error->text.find("rank 1 has joined, and a graph would wait for it") !=
                   std::string::npos,
           error ? error->text : "no error");
    // The others go on.
    engine.run(on_gpu(OpKind::allreduce, &value, &value, 1, user));
    GpuRanks::drain(user);
    engine.join();
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}
