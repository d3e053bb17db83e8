// Communicators that are made of an engine's own, over the fake driver and NCCL.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/gpu/driver_calls.h"
#include "tests/unit/worker/hvd/engine/gpu_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

void sum_of_all(Engine& engine, GpuStream& user) {
  float value = 1;
  engine.run(on_gpu(OpKind::allreduce, &value, &value, 1, user));
  GpuRanks::drain(user);
  expect(value == static_cast<float>(engine.communicator().size()), "wrong sum");
}

std::string text_of_error(const std::function<void()>& body) {
  const auto error = error_of(body);
  return error ? error->text : "no error";
}

}  // namespace

TEST_CASE("before there is a communicator nothing is split", "[engine][gpu]") {
  GpuRanks ranks({3});
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    expect(engine.split_gpu({0, 1}) == nullptr, "out of nothing");
    sum_of_all(engine, user);
  });
  REQUIRE(first_error(errors) == "");
  CHECK(fake().splits == 0);
  CHECK(ranks.left() == "");
}

TEST_CASE("a split waits for what is under way, and both communicators work on", "[engine][gpu]") {
  const auto hosts = GENERATE(std::vector<std::size_t>{3}, std::vector<std::size_t>{2, 1});
  GpuRanks ranks(hosts);
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    sum_of_all(engine, user);
    float value = 1;
    std::thread later;
    if (rank == 0) {
      hold(user.get());
      later = std::thread([] {
        // Long enough for a split that would not wait.
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        while (fake().splits == 0 && std::chrono::steady_clock::now() < end)
          std::this_thread::yield();
        fake().held = false;
      });
    }
    engine.submit(on_gpu(OpKind::allreduce, &value, &value, 1, user, "under way"));
    std::unique_ptr<NcclCommunicator> made;
    const auto trouble = error_of([&] { made = engine.split_gpu({0, 2}); });
    if (later.joinable()) later.join();
    expect(!trouble, trouble ? trouble->text : "");
    expect((made != nullptr) == (rank != 1), "for its members");
    float in_the_set = static_cast<float>(rank);
    if (made) {
      expect(made->size() == 2 && made->rank() == (rank == 0 ? 0 : 1), "its numbers");
      made->wait(sum_one(*made, in_the_set, user.get()), 20s);
      expect(in_the_set == 2, "its sum");
    }
    sum_of_all(engine, user);
    if (made) made->close(20s);
    sum_of_all(engine, user);
  });
  REQUIRE(first_error(errors) == "");
  CHECK(fake().splits == 3);
  CHECK(ranks.left() == "");
}

TEST_CASE("a split that fails on one rank is the same error on all", "[engine][gpu]") {
  GpuRanks ranks({3});
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    sum_of_all(engine, user);
    fake().split_fails_rank = 1;
    const std::string words =
        "rank 1 on GPU 1 (Fake): NCCL's communicator of a process set: unhandled system error";
    const std::string text = text_of_error([&] { engine.split_gpu({0, 2}); });
    expect(text == words, text);
    // It is of no use to anybody.
    const std::string again = text_of_error([&] { sum_of_all(engine, user); });
    expect(again == words, again);
    expect(engine.split_gpu({0, 2}) == nullptr, "out of what has failed");
    engine.run(Operation{});  // the CPUs go on
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("what a graph may run at any time is not split", "[engine][gpu]") {
  GpuRanks ranks({2});
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    sum_of_all(engine, user);
    float value = 1;
    graphs.begin(user.get());
    engine.run(on_gpu(OpKind::allreduce, &value, &value, 1, user));
    const GraphCalls::Graph step(graphs, user.get());
    expect(engine.split_gpu({0}) == nullptr, "beside a graph");
    step.launch(user.get());
    GpuRanks::drain(user);
    expect(value == 2, "its sum");
  });
  REQUIRE(first_error(errors) == "");
  CHECK(fake().splits == 0);
  CHECK(ranks.left() == "");
}
