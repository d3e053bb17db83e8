// Mismatches, deadlines, aborts, ranks that leave: never a hang, always a name.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/disturbance.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/trouble.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::DataType;
using hvd::ErrorCode;
using hvd::ReduceOp;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

void allreduce_ones(Communicator& communicator, std::size_t count, const CallOptions& options) {
  std::vector<float> data(count, 1.0F);
  communicator.allreduce(data.data(), data.data(), count, {DataType::float32, ReduceOp::sum},
                         options);
  expect(std::all_of(data.begin(), data.end(),
                     [&](float x) { return x == static_cast<float>(communicator.size()); }),
         "wrong sum");
}

}  // namespace

TEST_CASE("a mismatch is the same error on every rank and names both sides", "[comm]") {
  RankThreads ranks(4);
  std::vector<std::int64_t> data(100'000);
  std::vector<float> floats(100'000);
  const auto run = [&](auto odd_one) {
    return ranks.run([&](Communicator& communicator) {
      std::vector<float> own(100'000);
      if (communicator.rank() == 2) return odd_one(communicator);
      communicator.allreduce(own.data(), own.data(), 8, {DataType::float32, ReduceOp::average},
                             kPatient);
    });
  };
  const std::string first =
      "rank 0 called allreduce(float32, 8 elements, average), but rank 2 "
      "called ";
  SECTION("kind") {
    check_all(run([&](Communicator& communicator) {
                communicator.broadcast(data.data(), 3, DataType::int64, 1, kPatient);
              }),
              ErrorCode::mismatch, first + "broadcast(int64, 3 elements, root 1)");
  }
  SECTION("a longer buffer, which takes another path") {
    check_all(run([&](Communicator& communicator) {
                communicator.allreduce(floats.data(), floats.data(), floats.size(),
                                       {DataType::float32, ReduceOp::average}, kPatient);
              }),
              ErrorCode::mismatch, first + "allreduce(float32, 100000 elements, average)");
  }
  SECTION("type") {
    check_all(run([&](Communicator& communicator) {
                communicator.allreduce(data.data(), data.data(), 8,
                                       {DataType::int64, ReduceOp::average}, kPatient);
              }),
              ErrorCode::mismatch, first + "allreduce(int64, 8 elements, average)");
  }
  SECTION("reduction") {
    check_all(run([&](Communicator& communicator) {
                communicator.allreduce(floats.data(), floats.data(), 8,
                                       {DataType::float32, ReduceOp::sum}, kPatient);
              }),
              ErrorCode::mismatch, first + "allreduce(float32, 8 elements, sum)");
  }
  SECTION("scale factors") {
    check_all(run([&](Communicator& communicator) {
                communicator.allreduce(floats.data(), floats.data(), 8,
                                       {DataType::float32, ReduceOp::average, 0.5, 1}, kPatient);
              }),
              ErrorCode::mismatch,
              first + "allreduce(float32, 8 elements, average, scale factors #");
  }
  SECTION("barrier") {
    check_all(run([&](Communicator& communicator) { communicator.barrier(kPatient); }),
              ErrorCode::mismatch, first + "barrier()");
  }
  // Nothing was lost.
  for (const std::size_t count : {1, 100, 100'000})
    CHECK(first_error(ranks.run([count](Communicator& communicator) {
            allreduce_ones(communicator, count, kPatient);
          })).empty());
}

TEST_CASE("different counts of the parts are a mismatch", "[comm]") {
  RankThreads ranks(3);
  std::vector<float> data(64);
  const std::vector<std::size_t> counts{3, 4, 5};
  const std::vector<std::size_t> others{4, 3, 5};  // the same number in all
  const auto of = [&](const Communicator& communicator) {
    return communicator.rank() == 1 ? others.data() : counts.data();
  };
  SECTION("allgather") {
    check_all(ranks.run([&](Communicator& communicator) {
      std::vector<float> output(12);
      communicator.allgather(data.data(), output.data(), of(communicator), DataType::float32,
                             kPatient);
    }),
              ErrorCode::mismatch, "rank 0 called allgather(float32, 12 elements in all, counts #");
  }
  SECTION("reducescatter") {
    check_all(ranks.run([&](Communicator& communicator) {
      std::vector<float> input(12);
      std::vector<float> output(5);
      communicator.reducescatter(input.data(), output.data(), of(communicator),
                                 {DataType::float32, ReduceOp::sum}, kPatient);
    }),
              ErrorCode::mismatch,
              "but rank 1 called reducescatter(float32, 12 elements, sum, counts and scale "
              "factors #");
  }
}

TEST_CASE("an alltoall whose sides disagree is an error for all that names both", "[comm]") {
  RankThreads ranks(4);
  check_all(ranks.run([&](Communicator& communicator) {
    std::vector<float> input(32);
    std::vector<float> output(32);
    const std::vector<std::size_t> send(4, 2);
    std::vector<std::size_t> receive(4, 2);
    if (communicator.rank() == 2) receive[1] = 3;
    communicator.alltoall(input.data(), send.data(), output.data(), receive.data(),
                          DataType::float32, kPatient);
  }),
            ErrorCode::mismatch, "alltoall: rank 1 sends 2 elements to rank 2, which expects 3");
  check_all(ranks.run([](Communicator& communicator) { communicator.barrier(kPatient); }),
            ErrorCode::mismatch, "no collective can run after one that failed: ");
}

TEST_CASE("different roots are a mismatch", "[comm]") {
  RankThreads ranks(3);
  check_all(ranks.run([&](Communicator& communicator) {
    int data = 0;
    communicator.broadcast(&data, 1, DataType::int32, communicator.rank() == 1 ? 2 : 0, kPatient);
  }),
            ErrorCode::mismatch,
            "rank 0 called broadcast(int32, 1 element, root 0), but rank 1 called "
            "broadcast(int32, 1 element, root 2)");
}

TEST_CASE("a deadline names the ranks that did not come", "[comm]") {
  RankThreads ranks(4);
  const auto start = steady_clock::now();
  const RankErrors errors = ranks.run([](Communicator& communicator) {
    if (communicator.rank() % 2 == 1) return;
    communicator.barrier({.timeout = milliseconds(300), .may_spin = true});
  });
  const auto took = steady_clock::now() - start;
  CHECK(took >= milliseconds(300));
  CHECK(took < milliseconds(3000));
  for (const int rank : {0, 2}) {
    const auto& error = errors[static_cast<std::size_t>(rank)];
    REQUIRE(error.has_value());
    CHECK(error->code == ErrorCode::timeout);
  }
  // One of the two was first; the other may hear it from that one.
  CHECK((contains(errors[0]->text, "barrier(): waited 0.3 s for rank 1, rank 3") ||
         contains(errors[2]->text, "barrier(): waited 0.3 s for rank 1, rank 3")));
  // Nor does a rank that comes late find them there.
  const RankErrors late = ranks.run([](Communicator& communicator) {
    if (communicator.rank() % 2 == 0) return;
    communicator.barrier(kPatient);
  });
  for (const int rank : {1, 3}) {
    const auto& error = late[static_cast<std::size_t>(rank)];
    REQUIRE(error.has_value());
    CHECK(error->code == ErrorCode::timeout);
    CHECK(contains(error->text, "gave up: waited 0.3 s for rank"));
  }
}

TEST_CASE("ranks that give up at the same time do not name each other", "[comm]") {
  for (std::uint64_t round = 1; round <= 10; ++round) {
    const Disturbance disturbance(round);
    RankThreads ranks(8);
    const RankErrors errors = ranks.run([](Communicator& communicator) {
      communicator.barrier(kPatient);  // from here on all deadlines are close together
      if (communicator.rank() != 7) communicator.barrier({.timeout = milliseconds(300)});
    });
    for (std::size_t rank = 0; rank < 7; ++rank) {
      REQUIRE(errors[rank].has_value());
      INFO("round " << round << ", rank " << rank << ": " << errors[rank]->text);
      CHECK(errors[rank]->code == ErrorCode::timeout);
      CHECK(contains(errors[rank]->text, "waited 0.3 s for rank 7"));
    }
  }
}

TEST_CASE("abort ends a pending and every later operation", "[comm]") {
  RankThreads ranks(2);
  std::thread aborter([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ranks[0].abort(hvd::Error(ErrorCode::unavailable, "the agent is gone"));
  });
  const auto start = steady_clock::now();
  const auto error = error_of([&] { ranks[0].barrier(kPatient); });
  aborter.join();
  CHECK(steady_clock::now() - start < milliseconds(2000));
  REQUIRE(error.has_value());
  CHECK(error->code == ErrorCode::unavailable);
  CHECK(error->text == "barrier(): the agent is gone");
  const auto later = error_of([&] { allreduce_ones(ranks[0], 10, kPatient); });
  REQUIRE(later.has_value());
  CHECK(contains(later->text, "the agent is gone"));
  // The other rank hears it from this one.
  const auto other = error_of([&] {
    for (int i = 0; i < 2; ++i) ranks[1].barrier(kPatient);
  });
  REQUIRE(other.has_value());
  CHECK(contains(other->text, "rank 0 gave up: the agent is gone"));
}

TEST_CASE("abort before an operation fails it without waiting", "[comm]") {
  RankThreads ranks(2);
  ranks[1].abort(hvd::Error(ErrorCode::unavailable, "gone"));
  const auto error = error_of([&] { ranks[1].barrier(kPatient); });
  REQUIRE(error.has_value());
  CHECK(error->text == "barrier(): gone");
}

TEST_CASE("an operation that a leaver took part in completes, the next one fails", "[comm]") {
  // 10 elements take one meeting, a million many chunks of two.
  const std::size_t count = GENERATE(std::size_t{10}, std::size_t{1'000'000});
  CAPTURE(count);
  for (int round = 0; round < (kThorough ? 20 : 6); ++round) {
    RankThreads ranks(3);
    std::atomic<int> finished{0};
    const RankErrors errors = ranks.run([&](Communicator& communicator) {
      if (communicator.rank() == 1 && round % 2 == 0) std::this_thread::sleep_for(milliseconds(1));
      allreduce_ones(communicator, count, kPatient);
      ++finished;
      if (communicator.rank() == 2) {
        // The news is everywhere before the slow rank has even looked.
        for (const int other : {0, 1})
          ranks[other].peer_gone(2, hvd::Error(ErrorCode::peer_lost, "rank 2 said goodbye"));
        return;
      }
      communicator.barrier(kPatient);
    });
    CHECK(finished == 3);
    CHECK_FALSE(errors[2].has_value());
    for (const std::size_t rank : {0, 1}) {
      REQUIRE(errors[rank].has_value());
      CHECK(errors[rank]->code == ErrorCode::peer_lost);
      CHECK(contains(errors[rank]->text, "barrier(): rank 2 said goodbye"));
    }
  }
}

TEST_CASE("a rank that is killed after it arrived is not missed by slower ones", "[comm]") {
  RankThreads ranks(3);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    error_of([&] { ranks[2].barrier(kPatient); });  // never gets past it
    std::_Exit(1);
  }
  std::this_thread::sleep_for(milliseconds(200));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  for (const int other : {0, 1})
    ranks[other].peer_gone(2, hvd::Error(ErrorCode::peer_lost, "rank 2 is lost"));
  const RankErrors errors = ranks.run([](Communicator& communicator) {
    if (communicator.rank() == 2) return;
    // Rank 0 sleeps, with the news at hand, until rank 1 comes.
    if (communicator.rank() == 1) std::this_thread::sleep_for(milliseconds(200));
    communicator.barrier(kPatient);
  });
  CHECK(first_error(errors) == "");
  check_all({ranks.run([](Communicator& communicator) {
              if (communicator.rank() == 0) communicator.barrier(kPatient);
            })[0]},
            ErrorCode::peer_lost, "rank 2 is lost");
}

TEST_CASE("a rank that dies while others sleep ends their wait at once", "[comm]") {
  RankThreads ranks(3);
  std::thread reaper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ranks[0].peer_gone(1, hvd::Error(ErrorCode::peer_lost, "rank 1 is lost: signal 9"));
  });
  const auto start = steady_clock::now();
  const RankErrors errors = ranks.run([](Communicator& communicator) {
    if (communicator.rank() != 1) allreduce_ones(communicator, 100'000, kPatient);
  });
  reaper.join();
  CHECK(steady_clock::now() - start < milliseconds(1000));
  // Rank 2 was not told; it hears from rank 0.
  for (const std::size_t rank : {0, 2}) {
    REQUIRE(errors[rank].has_value());
    CHECK(errors[rank]->code == ErrorCode::peer_lost);
    CHECK(contains(errors[rank]->text, "rank 1 is lost: signal 9"));
  }
}

TEST_CASE("a segment that is too short is refused", "[comm]") {
  const auto error = error_of([] {
    Mapping::of_file(::fileno(::tmpfile()), 4096);  // NOLINT: leaks an empty file of this test
  });
  REQUIRE(error.has_value());
  CHECK(contains(error->text, "has 0 bytes, 4096 are needed"));
}
