#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/reference.h"
#include "worker/hvd/engine/engine.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::ErrorCode;
using std::chrono::milliseconds;

namespace {

// Records what runs where; an allreduce waits until it is let go.
class FakeCommunicator final : public Communicator {
 public:
  struct Call {
    std::size_t count;
    std::thread::id thread;
    bool may_spin;
  };

  int rank() const override { return 0; }
  int size() const override { return 4; }
  void allreduce(const void*, void*, std::size_t count, const Reduction&,
                 const CallOptions& options) override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      expect(!inside_, "two operations at once");
      inside_ = true;
      calls_.push_back({count, std::this_thread::get_id(), options.may_spin});
      changed_.notify_all();
      changed_.wait(lock, [&] { return !held_; });
      inside_ = false;
    }
    if (count == 13) throw hvd::Error(ErrorCode::peer_lost, "thirteen");
  }
  void grouped_allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                         const CallOptions& options) override {
    allreduce(nullptr, nullptr, BufferRow(parts, 1).count(), reduction, options);
  }
  void broadcast(void*, std::size_t, hvd::DataType, int, const CallOptions&) override {}
  void allgather(const void*, void*, const std::size_t*, hvd::DataType,
                 const CallOptions&) override {}
  void reducescatter(const void*, void*, const std::size_t*, const Reduction&,
                     const CallOptions&) override {}
  void alltoall(const void*, const std::size_t*, void*, const std::size_t*, hvd::DataType,
                const CallOptions&) override {}
  void alltoall_from(const BufferRow&, std::size_t, const std::size_t*, void*, const std::size_t*,
                     hvd::DataType, const CallOptions&) override {}
  void barrier(const CallOptions&) override {}
  void abort(const hvd::Error&) override {}
  void peer_gone(int, const hvd::Error&) override {}
  bool await_others(milliseconds) override { return false; }
  void wake() override {}

  void hold(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void wait_calls(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return calls_.size() >= count; });
  }
  std::vector<Call> calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool inside_ = false;
  std::vector<Call> calls_;
};

EngineOptions options(const CoreShare& share) {
  EngineOptions options;
  options.timeout = milliseconds(5000);
  options.share = share;
  return options;
}

struct Fixture {
  FakeCommunicator* fake = new FakeCommunicator;  // owned by the engine
  CoreShare share{};
  Engine engine{std::unique_ptr<Communicator>(fake), options(share)};
  float data[64] = {};

  Operation allreduce(std::size_t count) {
    Operation operation;
    operation.kind = OpKind::allreduce;
    operation.input = data;
    operation.output = data;
    operation.count = count;
    return operation;
  }
};

}  // namespace

TEST_CASE("a blocking call with nothing under way runs on its caller's thread", "[engine]") {
  Fixture f;
  f.engine.run(f.allreduce(1));
  REQUIRE(f.fake->calls().size() == 1);
  CHECK(f.fake->calls()[0].thread == std::this_thread::get_id());
  CHECK(f.fake->calls()[0].may_spin);
}

TEST_CASE("a caller spins only while every thread of the job has a core", "[engine]") {
  using Threads = std::pair<CoreShare, std::pair<bool, bool>>;
  // Cores, ranks, compute threads; without and with the engine's own threads.
  for (const auto& [share, spins] :
       {Threads{{2, 2, 1}, {true, false}}, Threads{{4, 2, 1}, {true, true}},
        Threads{{4, 2, 2}, {true, false}}, Threads{{6, 2, 2}, {true, true}},
        Threads{{2, 2, 2}, {false, false}}, Threads{{2, 4, 1}, {false, false}}}) {
    CAPTURE(share.cores, share.ranks, share.compute_threads);
    Fixture f{.share = share};
    f.engine.run(f.allreduce(1));
    CHECK(f.fake->calls().back().may_spin == spins.first);
    f.engine.synchronize(f.engine.submit(f.allreduce(1)));
    CHECK_FALSE(f.fake->calls().back().may_spin);
    f.engine.run(f.allreduce(1));
    CHECK(f.fake->calls().back().thread == std::this_thread::get_id());
    CHECK(f.fake->calls().back().may_spin == spins.second);
  }
}

TEST_CASE("operations run in the order of submission, a blocking one last", "[engine]") {
  Fixture f;
  f.fake->hold(true);
  std::vector<std::uint64_t> ids;
  for (std::size_t count = 1; count <= 5; ++count)
    ids.push_back(f.engine.submit(f.allreduce(count)));
  f.fake->wait_calls(1);
  for (const std::uint64_t id : ids) CHECK_FALSE(f.engine.poll(id));
  std::thread blocking([&] { f.engine.run(f.allreduce(6)); });
  f.fake->hold(false);
  blocking.join();
  for (const std::uint64_t id : ids) {
    CHECK(f.engine.poll(id));
    f.engine.synchronize(id);
  }
  const auto calls = f.fake->calls();
  REQUIRE(calls.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(calls[i].count == i + 1);
    // The blocking one may have come when everything was done.
    if (i < 5) {
      CHECK(calls[i].thread != std::this_thread::get_id());
      CHECK_FALSE(calls[i].may_spin);
    }
  }
}

TEST_CASE("an asynchronous call waits for a blocking one under way", "[engine]") {
  Fixture f;
  f.fake->hold(true);
  std::thread blocking([&] { f.engine.run(f.allreduce(1)); });
  f.fake->wait_calls(1);
  const std::uint64_t id = f.engine.submit(f.allreduce(2));
  CHECK_FALSE(f.engine.poll(id));
  f.fake->hold(false);
  f.engine.synchronize(id);
  blocking.join();
  CHECK(f.fake->calls().size() == 2);
}

TEST_CASE("errors stay with their handle", "[engine]") {
  Fixture f;
  const std::uint64_t good = f.engine.submit(f.allreduce(1));
  const std::uint64_t bad = f.engine.submit(f.allreduce(13));
  const std::uint64_t after = f.engine.submit(f.allreduce(2));
  f.engine.synchronize(after);
  CHECK(f.engine.poll(bad));
  const auto error = error_of([&] { f.engine.synchronize(bad); });
  REQUIRE(error.has_value());
  CHECK(error->code == ErrorCode::peer_lost);
  CHECK(error->text == "thirteen");
  f.engine.synchronize(good);
  CHECK(error_of([&] { f.engine.run(f.allreduce(13)); })->text == "thirteen");
  f.engine.run(f.allreduce(3));
}

TEST_CASE("a handle is consumed once", "[engine]") {
  Fixture f;
  const std::uint64_t id = f.engine.submit(f.allreduce(1));
  f.engine.synchronize(id);
  for (const std::uint64_t unknown : {id, std::uint64_t{0}, std::uint64_t{999}}) {
    CHECK(error_of([&] { f.engine.synchronize(unknown); })->code == ErrorCode::invalid_argument);
    CHECK(error_of([&] { f.engine.poll(unknown); })->code == ErrorCode::invalid_argument);
    CHECK(error_of([&] { f.engine.wait(unknown, milliseconds(0)); })->code ==
          ErrorCode::invalid_argument);
  }
}

TEST_CASE("wrong arguments never reach the communicator", "[engine]") {
  Fixture f;
  std::vector<std::pair<Operation, std::string>> wrong;
  const auto add = [&](const std::string& part, auto change) {
    Operation operation = f.allreduce(4);
    change(operation);
    wrong.emplace_back(operation, part);
  };
  add("input buffer is null", [](Operation& o) { o.input = nullptr; });
  add("output buffer is null", [](Operation& o) { o.output = nullptr; });
  add("unknown data type 12",
      [](Operation& o) { o.reduction.type = static_cast<hvd::DataType>(12); });
  add("unknown reduce operation 7",
      [](Operation& o) { o.reduction.op = static_cast<hvd::ReduceOp>(7); });
  add("there is no average of bool", [](Operation& o) {
    o.reduction = {hvd::DataType::boolean, hvd::ReduceOp::average};
  });
  add("bool cannot be scaled", [](Operation& o) {
    o.reduction = {hvd::DataType::boolean, hvd::ReduceOp::max, 2.0};
  });
  add("allreduce: adasum is for float16, bfloat16, float32 and float64 only", [](Operation& o) {
    o.reduction = {hvd::DataType::int32, hvd::ReduceOp::adasum};
  });
  add("reducescatter: adasum is for allreduce only", [](Operation& o) {
    o.kind = OpKind::reducescatter;
    o.count = 1;
    o.reduction.op = hvd::ReduceOp::adasum;
  });
  add("a scale factor is not a number", [](Operation& o) { o.reduction.postscale = NAN; });
  add("input and output overlap, but are not the same buffer",
      [](Operation& o) { o.output = static_cast<char*>(o.output) + 4; });
  // Rank 0 of 4: its place in the output is the beginning.
  add("the input is not at this rank's place in the output", [](Operation& o) {
    o.kind = OpKind::allgather;
    o.count = 1;
    o.input = static_cast<char*>(o.output) + 4;
  });
  add("with counts of its own for each rank it cannot be in place", [](Operation& o) {
    o.kind = OpKind::alltoall;
    o.counts = o.receive_counts = {1, 1, 1, 1};
  });
  add("more than memory can hold", [](Operation& o) {
    o.kind = OpKind::allgather;
    o.counts = {1, SIZE_MAX / 8, 1, 1};
  });
  add("more than memory can hold", [](Operation& o) { o.count = SIZE_MAX / 4; });
  add("root 4 is not a rank of 0 to 3", [](Operation& o) {
    o.kind = OpKind::broadcast;
    o.root = 4;
  });
  add("root -1 is not", [](Operation& o) {
    o.kind = OpKind::broadcast;
    o.root = -1;
  });
  for (const auto& [operation, part] : wrong) {
    CAPTURE(part);
    const auto blocking = error_of([&, &op = operation] { f.engine.run(op); });
    const auto queued = error_of([&, &op = operation] { f.engine.submit(op); });
    REQUIRE(blocking.has_value());
    REQUIRE(queued.has_value());
    CHECK(blocking->code == ErrorCode::invalid_argument);
    CHECK(blocking->text.find(part) != std::string::npos);
    CHECK(queued->text == blocking->text);
  }
  CHECK(f.fake->calls().empty());
  Operation empty = f.allreduce(0);
  empty.input = empty.output = nullptr;
  f.engine.run(empty);
}

TEST_CASE("a function follows an operation's end, and may submit more", "[engine]") {
  Fixture f;
  f.fake->hold(true);
  const std::uint64_t first = f.engine.submit(f.allreduce(1));
  const std::uint64_t bad = f.engine.submit(f.allreduce(13));
  std::atomic<std::uint64_t> second{0};
  std::optional<RankError> error;
  f.engine.then(first, [&] { second = f.engine.submit(f.allreduce(2)); });
  f.engine.then(bad, [&] { error = error_of([&] { f.engine.synchronize(bad); }); });
  f.fake->wait_calls(1);
  CHECK(second == 0);
  f.fake->hold(false);
  // Nobody waits, and yet the second is submitted.
  f.fake->wait_calls(3);
  f.engine.synchronize(first);
  f.engine.shutdown();
  REQUIRE(error.has_value());
  CHECK(error->text == "thirteen");
  CHECK(f.fake->calls().back().count == 2);
  f.engine.synchronize(second);
}

TEST_CASE("a function after an operation that has ended is called at once", "[engine]") {
  Fixture f;
  const std::uint64_t id = f.engine.submit(f.allreduce(1));
  REQUIRE(f.engine.wait(id, milliseconds(5000)));
  std::thread::id caller;
  f.engine.then(id, [&] { caller = std::this_thread::get_id(); });
  CHECK(caller == std::this_thread::get_id());
  f.engine.synchronize(id);
  CHECK(error_of([&] { f.engine.then(id, [] {}); })->code == ErrorCode::invalid_argument);
}

TEST_CASE("shutdown calls what follows, which submits no more", "[engine]") {
  Fixture f;
  f.fake->hold(true);
  const std::uint64_t id = f.engine.submit(f.allreduce(1));
  std::optional<RankError> error;
  f.engine.then(id, [&] { error = error_of([&] { f.engine.submit(f.allreduce(2)); }); });
  f.fake->wait_calls(1);
  std::thread shutdown([&] { f.engine.shutdown(); });
  while (!error_of([&] { f.engine.submit(f.allreduce(3)); }))
    std::this_thread::sleep_for(milliseconds(1));
  f.fake->hold(false);
  shutdown.join();
  REQUIRE(error.has_value());
  CHECK(error->code == ErrorCode::not_initialized);
}

TEST_CASE("shutdown finishes what was submitted", "[engine]") {
  Fixture f;
  f.fake->hold(true);
  for (std::size_t count = 1; count <= 3; ++count) f.engine.submit(f.allreduce(count));
  f.fake->wait_calls(1);
  std::thread release([&] { f.fake->hold(false); });
  f.engine.shutdown();
  release.join();
  CHECK(f.fake->calls().size() == 3);
  CHECK(error_of([&] { f.engine.run(f.allreduce(1)); })->code == ErrorCode::not_initialized);
  CHECK(error_of([&] { f.engine.submit(f.allreduce(1)); })->code == ErrorCode::not_initialized);
  f.engine.shutdown();
}

TEST_CASE("a shutdown beside another thread's blocking call waits for all that follows",
          "[engine]") {
  for (int round = 0; round < 50; ++round) {
    Fixture f;
    f.engine.synchronize(f.engine.submit(f.allreduce(1)));  // there is a thread now
    f.fake->hold(true);
    std::thread blocking([&] { f.engine.run(f.allreduce(2)); });
    f.fake->wait_calls(2);
    std::atomic<bool> followed{false};
    f.engine.then(f.engine.submit(f.allreduce(3)), [&] {
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      followed = true;
    });
    std::thread ending([&] { f.engine.shutdown(); });
    while (!error_of([&] { f.engine.submit(f.allreduce(3)); })) std::this_thread::yield();
    f.fake->hold(false);
    ending.join();
    // A second thread of the engine's, which nobody waits for, could still be at it.
    CHECK(followed);
    blocking.join();
  }
}

TEST_CASE("ranks that mix blocking and asynchronous calls get the serial results", "[engine]") {
  const int size = GENERATE(1, 2, 4);
  CAPTURE(size);
  RankThreads ranks(size);
  std::vector<std::unique_ptr<Engine>> engines;
  for (int rank = 0; rank < size; ++rank)
    engines.push_back(std::make_unique<Engine>(ranks.take(rank), options({})));
  RankErrors errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Engine& engine = *engines[static_cast<std::size_t>(rank)];
      errors[static_cast<std::size_t>(rank)] = error_of([&] {
        for (std::uint64_t round = 1; round <= 50; ++round) {
          std::vector<std::vector<float>> data;
          std::vector<std::uint64_t> ids;
          for (std::size_t i = 0; i < 4; ++i) {
            data.emplace_back(1 + round * 37 * i, static_cast<float>(rank + 1));
            Operation operation;
            operation.kind = OpKind::allreduce;
            operation.input = operation.output = data.back().data();
            operation.count = data.back().size();
            ids.push_back(engine.submit(operation));
          }
          Case c;
          c.kind = OpKind::allgather;
          c.count = round;
          c.round = round;
          check_typed<float>(c, static_cast<std::size_t>(rank), static_cast<std::size_t>(size),
                             [&](char* input, char* output) {
                               Operation operation;
                               operation.kind = OpKind::allgather;
                               operation.input = input;
                               operation.output = output;
                               operation.count = c.count;
                               engine.run(operation);
                             });
          const auto sum = static_cast<float>(size * (size + 1) / 2);
          for (std::size_t i = 4; i-- > 0;) {
            engine.synchronize(ids[i]);
            for (const float x : data[i]) expect(x == sum, "wrong sum");
          }
        }
        engine.shutdown();
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(first_error(errors) == "");
}
