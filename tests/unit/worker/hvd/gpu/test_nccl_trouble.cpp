// Communicators in trouble: never a hang, always a name and NCCL's own words.
#include <atomic>

#include "tests/gpu/driver_calls.h"
#include "tests/gpu/gpu_rank.h"
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/gpu/watch.h"

using namespace hvdrun;
using namespace hvdrun::test;
using Catch::Contains;
using Catch::StartsWith;
using std::chrono::steady_clock;

namespace {

const hvd::Error kPeerLost(hvd::ErrorCode::peer_lost, "rank 1 on host b was killed by signal 9");

// The errors of all but one; that one must have none.
void check_others(const std::vector<std::string>& errors, std::size_t but,
                  const std::string& text) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    if (rank != but) CHECK_THAT(errors[rank], StartsWith(text));
}

}  // namespace

TEST_CASE("a rank that does not come is a time-out, and NCCL is aborted", "[gpu][trouble]") {
  FakeRanks ranks(3);
  const auto errors = ranks.run([&](int rank) {
    if (rank != 2) ranks.at(rank).connect(ranks.id(), 150ms);
  });
  CHECK(errors[0] ==
        "rank 0 on GPU 0 (Fake): NCCL's communicator of 3 ranks: not ready after "
        "0.15 s; another rank did not take part");
  CHECK(errors[1] ==
        "rank 1 on GPU 1 (Fake): NCCL's communicator of 3 ranks: not ready after "
        "0.15 s; another rank did not take part");
  CHECK(fake().aborts == 2);
  CHECK(fake().misuses == 0);
}

TEST_CASE("a creation that never ends is a time-out even when all have come", "[gpu][trouble]") {
  FakeRanks ranks(2);
  fake().init_hangs = true;
  const auto errors = ranks.connect(100ms);
  CHECK_THAT(errors[0], Contains("not ready after 0.1 s"));
  CHECK(fake().aborts == 2);
}

TEST_CASE("an error of the creation has NCCL's last words", "[gpu][trouble]") {
  FakeRanks ranks(2);
  fake().init_result = nccl::system_error;
  fake().last_error = "Call to connect to 10.0.0.2<4242> failed:\nConnection refused\n";
  CHECK(ranks.connect().front() ==
        "rank 0 on GPU 0 (Fake): NCCL's communicator of 2 ranks: unhandled system error: Call to "
        "connect to 10.0.0.2<4242> failed: Connection refused");
}

TEST_CASE("an abort ends a creation under way", "[gpu][trouble]") {
  FakeRanks ranks(2);
  std::thread other([&] { ranks.at(0).abort(kPeerLost); });
  const auto errors = ranks.run([&](int rank) {
    if (rank == 0) ranks.at(0).connect(ranks.id(), 60s);
  });
  other.join();
  CHECK(errors[0] == kPeerLost.what());
}

TEST_CASE("a rank that takes no part is told in time, however long NCCL's abort takes",
          "[gpu][trouble]") {
  // Either the ranks have met before, or NCCL waits to connect them.
  const bool met = GENERATE(true, false);
  const bool watched = GENERATE(true, false);
  FakeRanks ranks(2);
  fake().connects_late = true;
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::vector<float> values(2, 1);
  if (met)
    REQUIRE(ranks.run([&](int rank) {
      ranks.at(rank).wait(sum_one(ranks.at(rank), values[static_cast<std::size_t>(rank)]), 20s);
    }) == nothing_wrong(2));
  fake().aborts_held = true;
  std::atomic<bool> told_during_abort{false};
  const auto begin = steady_clock::now();
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    NcclCommunicator& own = ranks.at(0);
    GpuWatch watch({}, 1ms);
    if (watched) watch.add(own);
    std::string text;
    try {
      own.wait(sum_one(own, values[0], nullptr, 100ms), 30s);
    } catch (const hvd::Error& error) {
      if (error.code() == hvd::ErrorCode::timeout) text = error.what();
    }
    // Ten seconds are what an abort is given; the fake's lasts for as long as it is held.
    told_during_abort = steady_clock::now() - begin < 8s;
    fake().aborts_held = false;
    if (watched) watch.remove(own);
    // The end waits for it, and the GPU is free then: the caller's stream goes on.
    own.abort(kPeerLost);
    if (fake().aborts != 1) throw std::runtime_error("not aborted once");
    GpuRank after(own, *ranks.devices[0]);
    cuda::Event event = after.user.lead(after.user.get());
    while (!after.user.has_ended(event)) {
      if (steady_clock::now() - begin > 20s) throw std::runtime_error("the GPU is not free");
      std::this_thread::yield();
    }
    after.user.recycle(event);
    throw std::runtime_error(text);
  });
  CHECK_THAT(errors[0],
             StartsWith("rank 0 on GPU 0 (Fake): allreduce(float32, 1 element, sum): not "));
  CHECK_THAT(errors[0], Contains("after 0.1 s; another rank did not take part"));
  CHECK(told_during_abort);
  CHECK(fake().misuses == 0);
}

TEST_CASE("the watch does not tell what a call has told while it looked", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::atomic<bool> told{false};
  GpuWatch watch([&](const hvd::Error&) { told = true; }, 1ms);
  fake().looks_held = true;
  fake().async_error = nccl::remote_error;
  fake().async_rank = 0;
  const int before = fake().looks;
  watch.add(ranks.at(0));
  const auto deadline = steady_clock::now() + 8s;
  while (fake().looks == before && steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(ranks.at(0).set_failure(kPeerLost));
  CHECK_FALSE(ranks.at(0).set_failure(kPeerLost));
  fake().looks_held = false;
  watch.remove(ranks.at(0));  // after the look
  CHECK_FALSE(told);
  fake().async_rank = -1;
}

TEST_CASE("the watch tells what is wrong before NCCL's aborts have ended", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  fake().aborts_held = true;
  std::atomic<bool> told{false};
  GpuWatch watch([&](const hvd::Error&) { told = true; }, 1ms);
  watch.add(ranks.at(0));
  fake().async_error = nccl::remote_error;
  fake().async_rank = 0;
  const auto deadline = steady_clock::now() + 8s;
  while (!told && steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(told);
  fake().aborts_held = false;
  watch.remove(ranks.at(0));
  CHECK(fake().aborts == 1);
  fake().async_rank = -1;
}

TEST_CASE("the news of a peer's death ends what waits for it", "[gpu][trouble]") {
  FakeRanks ranks(3);
  REQUIRE(ranks.connect() == nothing_wrong(3));
  std::vector<float> values(3, 1);
  const auto begin = steady_clock::now();
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    NcclCommunicator& own = ranks.at(rank);
    const GpuTicket ticket = sum_one(own, values[static_cast<std::size_t>(rank)]);
    if (own.has_ended(ticket)) throw std::runtime_error("ended without rank 1");
    own.peer_gone(1, kPeerLost);
    try {
      own.wait(ticket, 20s);
    } catch (const hvd::Error& error) {
      if (error.code() != hvd::ErrorCode::peer_lost) throw std::runtime_error("another code");
      // Every later one says the same.
      sum_one(own, values[static_cast<std::size_t>(rank)]);
    }
  });
  check_others(errors, 1, kPeerLost.what());
  CHECK(steady_clock::now() - begin < 10s);
  CHECK(fake().aborts == 2);
  CHECK(fake().misuses == 0);
}

TEST_CASE("a later error of NCCL's is watched for, named, and ends all of the rank's communicators",
          "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::vector<std::unique_ptr<NcclCommunicator>> sets(2);
  REQUIRE(ranks.run([&](int rank) {
    sets[static_cast<std::size_t>(rank)] = ranks.at(rank).split({0, 1}, 20s);
  }) == nothing_wrong(2));
  fake().last_error = "net.cc:301 peer closed the connection";
  std::vector<float> values(2, 1);
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;  // takes part in nothing
    std::atomic<bool> told{false};
    std::string text;
    GpuWatch watch(
        [&](const hvd::Error& error) {
          text = error.what();
          told = true;
        },
        1ms);
    watch.add(ranks.at(0));
    watch.add(*sets[0]);
    // One of them cannot be aborted alone: the other's kernel keeps it.
    fake().abort_needs = 2;
    sum_one(ranks.at(0), values[0]);
    sum_one(*sets[0], values[0]);
    fake().async_error = nccl::remote_error;
    fake().async_rank = 0;
    const auto deadline = steady_clock::now() + 5s;
    while (!told && steady_clock::now() < deadline) std::this_thread::yield();
    const bool in_time = told;
    watch.remove(ranks.at(0));
    watch.remove(*sets[0]);
    if (!in_time) throw std::runtime_error("nobody was told in time");
    try {
      sum_one(*sets[0], values[0]);
    } catch (const hvd::Error& error) {
      if (error.code() != hvd::ErrorCode::peer_lost || error.what() != text)
        throw std::runtime_error(std::string("another error: ") + error.what());
    }
    sum_one(ranks.at(0), values[0]);
  });
  CHECK(errors[0] ==
        "rank 0 on GPU 0 (Fake): NCCL: remote process exited or there was a network error: "
        "net.cc:301 peer closed the connection");
  CHECK(fake().aborts == 2);
  fake().async_rank = -1;
  fake().abort_needs = 1;
}

TEST_CASE("an operation past its deadline is named by the watch's look", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  float value = 1;
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    NcclCommunicator& own = ranks.at(0);
    sum_one(own, value, nullptr, 30s);
    if (own.look(steady_clock::now() + 29s)) throw std::runtime_error("too early");
    const auto late = own.look(steady_clock::now() + 31s);
    if (!late || late->code() != hvd::ErrorCode::timeout) throw std::runtime_error("no time-out");
    throw hvd::Error(*late);
  });
  CHECK(errors[0] ==
        "rank 0 on GPU 0 (Fake): allreduce(float32, 1 element, sum): not done after 30 s; another "
        "rank did not take part, or its GPU hangs");
}

TEST_CASE("what is captured has no time to be done by, however long the capture takes",
          "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::vector<float> values{1, 2};
  const auto errors = ranks.run([&](int rank) {
    const GraphCalls graphs(fake_file());
    NcclCommunicator& own = ranks.at(rank);
    const GpuDevice& device = *ranks.devices[static_cast<std::size_t>(rank)];
    float& value = values[static_cast<std::size_t>(rank)];
    const CurrentDevice current(device);
    GpuStream user(device);
    const auto events = std::make_shared<GpuEvents>(device);
    graphs.begin(user.get());
    const GpuMark before(events, user.get());
    const std::vector<cuda::Event> after{before.event()};
    GpuCall call;
    call.timeout = 20s;
    call.after = &after;
    call.captured = before.captured();
    if (!call.captured) throw std::runtime_error("nothing is captured");
    own.lead(own.allreduce(&value, &value, 1, {hvd::DataType::float32, hvd::ReduceOp::sum}, call),
             user.get());
    // The capture is still open; the program compiles something, say.
    for (const auto later : {0s, 21s, 36'000s})
      if (const auto error = own.look(steady_clock::now() + later)) throw hvd::Error(*error);
    if (!own.is_busy()) throw std::runtime_error("nobody would look after the graph");
    const GraphCalls::Graph step(graphs, user.get());
    step.launch(user.get());
    cuda::Event event = user.lead(user.get());
    const auto deadline = steady_clock::now() + 20s;
    while (!user.has_ended(event) && steady_clock::now() < deadline) std::this_thread::yield();
    user.recycle(event);
  });
  CHECK(errors == nothing_wrong(2));
  CHECK(values == std::vector<float>{3, 3});
  CHECK(fake().misuses == 0);
}

TEST_CASE("what CUDA says while the process ends is no trouble", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  fake().async_error = nccl::unhandled_cuda_error;
  fake().async_rank = 0;
  CHECK(ranks.at(0).look(steady_clock::now()));
  fake().closed = true;
  CHECK_FALSE(ranks.at(0).look(steady_clock::now()));
  fake().async_rank = -1;
  CHECK_FALSE(ranks.at(0).look(steady_clock::now()));
  fake().closed = false;
}

TEST_CASE("who asks the watch for an abort waits for nothing", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::atomic<bool> looking{false};
  std::atomic<bool> asked{false};
  std::atomic<bool> too_late{false};
  const auto deadline = steady_clock::now() + 10s;
  GpuWatch watch(
      [&](const hvd::Error&) {
        looking = true;
        while (!asked && steady_clock::now() < deadline) std::this_thread::yield();
        too_late = !asked;
      },
      1ms);
  watch.add(ranks.at(0));
  fake().async_error = nccl::remote_error;
  fake().async_rank = 0;
  while (!looking && steady_clock::now() < deadline) std::this_thread::yield();
  REQUIRE(looking);
  watch.abort(kPeerLost);
  asked = true;
  watch.remove(ranks.at(0));
  CHECK_FALSE(too_late);
  fake().async_rank = -1;
}

TEST_CASE("where nothing is under way the watch sleeps, and wakes when something is",
          "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::atomic<bool> told{false};
  GpuWatch watch([&](const hvd::Error&) { told = true; }, 1ms, 20ms);
  watch.add(ranks.at(0));
  std::vector<float> values(2, 1);
  const auto deadline = steady_clock::now() + 10s;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    REQUIRE(ranks.run([&](int rank) {
      float& value = values[static_cast<std::size_t>(rank)];
      sum_one(ranks.at(rank), value);
    }) == nothing_wrong(2));
    // Nobody asks: ten times as long as it needs to fall asleep, on a busy machine perhaps later.
    int before = -1;
    while (before != fake().looks && steady_clock::now() < deadline) {
      before = fake().looks;
      std::this_thread::sleep_for(200ms);
    }
    CHECK(before == fake().looks);
    CHECK(before > 0);
  }
  // It wakes for the next one, which rank 1 takes no part in.
  REQUIRE(ranks.run([&](int rank) {
    if (rank == 0) sum_one(ranks.at(0), values[0], nullptr, 50ms);
  }) == nothing_wrong(2));
  while (!told && steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(told);
  watch.remove(ranks.at(0));
}

TEST_CASE("a call that hangs within NCCL is ended by the watch", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  fake().group_end_hangs_rank = 0;
  float value = 1;
  const auto begin = steady_clock::now();
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    GpuWatch watch({}, 1ms);
    watch.add(ranks.at(0));
    try {
      sum_one(ranks.at(0), value, nullptr, 50ms);
    } catch (...) {
      watch.remove(ranks.at(0));
      throw;
    }
  });
  CHECK_THAT(errors[0], Contains("not done after 0.05 s"));
  CHECK(steady_clock::now() - begin < 10s);
}

TEST_CASE("a revoked communicator takes nothing more and can be shrunk", "[gpu][trouble]") {
  FakeRanks ranks(3);
  REQUIRE(ranks.connect() == nothing_wrong(3));
  std::vector<float> values(3, 1);
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    NcclCommunicator& own = ranks.at(rank);
    float& value = values[static_cast<std::size_t>(rank)];
    sum_one(own, value);
    own.revoke(kPeerLost, 20s);
    try {
      sum_one(own, value);
      throw std::runtime_error("it took an operation");
    } catch (const hvd::Error& error) {
      if (std::string(error.what()) != kPeerLost.what()) throw;
    }
    auto left = own.shrink({1}, 20s);
    if (left->size() != 2 || left->rank() != rank / 2) throw std::runtime_error("wrong ranks");
    left->wait(sum_one(*left, value), 20s);
    left->close(20s);
  });
  CHECK(errors == nothing_wrong(3));
  CHECK(values == std::vector<float>{2, 1, 2});
  CHECK(fake().shrink_flags == 0);
}

TEST_CASE("a shrink to one rank leaves it alone", "[gpu][trouble]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  float value = 1;
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    sum_one(ranks.at(0), value);
    auto left = ranks.at(0).shrink({1}, 20s);
    value = 5;
    left->wait(sum_one(*left, value), 20s);
  });
  CHECK(errors == nothing_wrong(2));
  CHECK(value == 5);
  CHECK(fake().aborts == 1);
  CHECK(fake().shrink_flags == -1);
}

TEST_CASE("without a revocation a shrink stops what is under way", "[gpu][trouble]") {
  FakeRanks ranks(3);
  REQUIRE(ranks.connect() == nothing_wrong(3));
  std::vector<float> values(3, 1);
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    float& value = values[static_cast<std::size_t>(rank)];
    sum_one(ranks.at(rank), value);
    auto left = ranks.at(rank).shrink({1}, 20s);
    left->wait(sum_one(*left, value), 20s);
  });
  CHECK(errors == nothing_wrong(3));
  CHECK(fake().shrink_flags == nccl::kShrinkAbort);
}

TEST_CASE("an operation without a communicator is an error, not a success", "[gpu][trouble]") {
  FakeRanks ranks(2);
  float value = 1;
  CHECK_THROWS_WITH(sum_one(ranks.at(0), value),
                    "rank 0 on GPU 0 (Fake): allreduce(float32, 1 element, sum): its communicator "
                    "is not connected, or in use");
}

TEST_CASE("what an old NCCL lacks is an error that says so", "[gpu][trouble]") {
  FakeRanks ranks(1);
  GpuParts parts = ranks.parts(0);
  auto old = std::make_shared<NcclLibrary>(*parts.nccl);
  old->version = 21403;
  old->api.comm_split = nullptr;
  old->api.comm_shrink = nullptr;
  old->api.comm_revoke = nullptr;
  parts.nccl = old;
  NcclCommunicator own(parts, 0, 2);
  CHECK_THROWS_WITH(own.split({0, 1}, 1s), "NCCL 2.14.3 has no ncclCommSplit");
  CHECK_THROWS_WITH(own.shrink({}, 1s), "NCCL 2.14.3 has no ncclCommShrink");
  CHECK_THROWS_WITH(own.revoke(kPeerLost, 1s), "NCCL 2.14.3 has no ncclCommRevoke");
}
