// Collectives across hosts: the conformance suite over layouts, and trouble between hosts.
#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/hosts/host_threads.h"
#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "tests/unit/worker/hvd/comm/reduce/number_checks.h"
#include "tests/unit/worker/hvd/comm/trouble.h"

using namespace hvdrun;
using namespace hvdrun::test;
using Catch::Matchers::Contains;
using hvd::DataType;
using hvd::ErrorCode;
using hvd::ReduceOp;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

void check_cases(HostThreads& ranks, const std::vector<Case>& cases) {
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const Case& c : cases)
            check_collective(c, communicator, {.timeout = milliseconds(60'000)},
                             &ranks.buffers(communicator.rank()));
        })) == "");
}

// Everything still works.
void check_sums(HostThreads& ranks) {
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const std::size_t count : {1, 100'000}) {
            std::vector<float> data(count, 1.0F);
            communicator.allreduce(data.data(), data.data(), count,
                                   {DataType::float32, ReduceOp::sum}, kPatient);
            expect(data.back() == static_cast<float>(communicator.size()), "wrong sum");
          }
        })) == "");
}

}  // namespace

TEST_CASE("every collective gives the serial result on every layout of hosts", "[hosts]") {
  const Counts counts =
      GENERATE(Counts{8}, Counts{4, 4}, Counts{2, 2, 2, 2}, Counts{1, 1, 1, 1, 1, 1, 1, 1},
               Counts{3, 1, 2}, Counts{1, 1}, Counts{1, 3});
  if (!kThorough && (counts.size() > 3 || counts[0] > 3)) return;
  CAPTURE(counts);
  HostThreads ranks(counts);
  check_cases(ranks, conformance_cases(static_cast<int>(ranks.layout().size())));
}

TEST_CASE("every collective gives the serial result over encrypted connections", "[hosts][tls]") {
  HostThreads ranks({3, 1, 2}, true);
  check_cases(ranks, conformance_cases(static_cast<int>(ranks.layout().size())));
}

TEST_CASE("ranks of several hosts follow the table of numbers", "[numbers][hosts]") {
  const Counts counts = GENERATE(Counts{1, 1}, Counts{1, 1, 1}, Counts{2, 1}, Counts{2, 2});
  CAPTURE(counts);
  HostThreads ranks(counts);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          check_numbers(communicator, &ranks.buffers(communicator.rank()));
        })) == "");
}

TEST_CASE("large operations across hosts pass in many chunks", "[hosts]") {
  const Counts counts = GENERATE(Counts{1, 1}, Counts{1, 1, 1}, Counts{2, 2}, Counts{2, 1});
  const bool encrypt = GENERATE(false, true);
  if (encrypt && counts.size() != 3) return;
  CAPTURE(counts, encrypt);
  HostThreads ranks(counts, encrypt);
  std::vector<Case> cases;
  std::uint64_t round = 0;
  for (const OpKind kind : kKinds)
    for (const bool in_place : {false, true})
      for (const DataType type : {DataType::float32, DataType::float16, DataType::uint8}) {
        Case c;
        c.kind = kind;
        c.in_place = in_place;
        c.reduction.type = type;
        c.reduction.op = in_place ? ReduceOp::average : ReduceOp::sum;
        c.count = kThorough ? 300'001 : 150'001;
        c.round = round++;
        if (kThorough || mix(round) % 3 == 0) cases.push_back(c);
      }
  check_cases(ranks, cases);
}

TEST_CASE("a long sequence of random operations across hosts stays in step", "[hosts]") {
  const Counts counts = GENERATE(Counts{1, 1}, Counts{2, 1}, Counts{1, 2, 1});
  const auto seed = test::soak_seed("random operations across hosts");
  CAPTURE(counts, seed);
  HostThreads ranks(counts);
  const std::vector<Case> cases = random_cases(seed, test::soak_count(kThorough ? 10'000 : 2'000),
                                               static_cast<int>(ranks.layout().size()));
  check_cases(ranks, cases);
}

TEST_CASE("a mismatch across hosts is an error on every rank, and harms nobody", "[hosts]") {
  const Counts counts = GENERATE(Counts{1, 1, 1}, Counts{2, 2}, Counts{3, 1, 2});
  CAPTURE(counts);
  HostThreads ranks(counts);
  const HostLayout& layout = ranks.layout();
  const std::size_t odd_host = layout.hosts() - 1;
  const std::size_t count = GENERATE(std::size_t{8}, std::size_t{300'000});
  std::vector<std::vector<float>> data(layout.size(), std::vector<float>(count + 1));
  const RankErrors errors = ranks.run([&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const std::size_t own = layout.host_of(rank) == odd_host ? count + 1 : count;
    communicator.allreduce(data[rank].data(), data[rank].data(), own,
                           {DataType::float32, ReduceOp::sum}, kPatient);
  });
  check_all(errors, ErrorCode::mismatch, " called ");
  CHECK_THAT(
      errors[0]->text,
      Contains("rank 0 called allreduce(float32, " + std::to_string(count) +
               " elements, sum), but rank " + std::to_string(layout.first(odd_host)) +
               " called allreduce(float32, " + std::to_string(count + 1) + " elements, sum)"));
  check_sums(ranks);
}

TEST_CASE("a mismatch inside a host is told to the other hosts", "[hosts]") {
  HostThreads ranks({1, 2});
  const RankErrors errors = ranks.run([&](Communicator& communicator) {
    float one = 1;
    if (communicator.rank() == 2) return communicator.barrier(kPatient);
    communicator.allreduce(&one, &one, 1, {DataType::float32, ReduceOp::sum}, kPatient);
  });
  check_all(errors, ErrorCode::mismatch, " called ");
  CHECK_THAT(errors[0]->text, Contains("rank 1 called something else than another rank"));
  CHECK_THAT(errors[2]->text, Contains("but rank 2 called barrier()"));
  check_sums(ranks);
}

TEST_CASE("an alltoall whose sides disagree across hosts is an error for all", "[hosts]") {
  HostThreads ranks({2, 1, 1});
  check_all(ranks.run([&](Communicator& communicator) {
    std::vector<float> input(32);
    std::vector<float> output(32);
    const Counts send(4, 2);
    Counts receive(4, 2);
    if (communicator.rank() == 3) receive[1] = 3;
    communicator.alltoall(input.data(), send.data(), output.data(), receive.data(),
                          DataType::float32, kPatient);
  }),
            ErrorCode::mismatch, "alltoall: rank 1 sends 2 elements to rank 3, which expects 3");
}

TEST_CASE("a deadline across hosts names whom it waited for", "[hosts]") {
  HostThreads ranks({1, 1, 1});
  const auto start = steady_clock::now();
  const RankErrors errors = ranks.run([](Communicator& communicator) {
    if (communicator.rank() != 1) communicator.barrier({.timeout = milliseconds(300)});
  });
  CHECK(steady_clock::now() - start >= milliseconds(300));
  for (const std::size_t rank : {0, 2}) {
    REQUIRE(errors[rank].has_value());
    CHECK(errors[rank]->code == ErrorCode::timeout);
    CHECK(contains(errors[rank]->text, "waited 0.3 s for rank 1"));
  }
}

TEST_CASE("a rank that is gone ends the others' wait with its reason", "[hosts]") {
  HostThreads ranks({1, 2});
  const std::size_t count = GENERATE(std::size_t{10}, std::size_t{1'000'000});
  std::thread reaper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    for (const std::size_t rank : {0, 1})
      ranks[rank].peer_gone(2, hvd::Error(ErrorCode::peer_lost, "rank 2 is lost: signal 9"));
  });
  const auto start = steady_clock::now();
  const RankErrors errors = ranks.run([&](Communicator& communicator) {
    if (communicator.rank() == 2) return;
    std::vector<float> data(count, 1.0F);
    communicator.allreduce(data.data(), data.data(), count, {DataType::float32, ReduceOp::sum},
                           kPatient);
  });
  reaper.join();
  CHECK(steady_clock::now() - start < milliseconds(2000));
  for (const std::size_t rank : {0, 1}) {
    REQUIRE(errors[rank].has_value());
    CHECK(errors[rank]->code == ErrorCode::peer_lost);
    CHECK(contains(errors[rank]->text, "rank 2 is lost: signal 9"));
  }
}

TEST_CASE("a connection that ends is an error, with the launcher's reason when it comes",
          "[hosts]") {
  HostThreads ranks({1, 1});
  const bool told = GENERATE(false, true);
  std::thread leaver([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ranks.leave(1);
    std::this_thread::sleep_for(milliseconds(100));
    if (told) ranks[0].peer_gone(1, hvd::Error(ErrorCode::peer_lost, "rank 1: exit code 3"));
  });
  const auto error = error_of([&] { ranks[0].barrier(kPatient); });
  leaver.join();
  REQUIRE(error.has_value());
  CHECK(error->code == ErrorCode::peer_lost);
  CHECK(contains(error->text, told ? "barrier(): rank 1: exit code 3"
                                   : "barrier(): rank 1 is lost: its connection ended"));
}

TEST_CASE("abort ends an operation across hosts, and the others hear of it", "[hosts]") {
  HostThreads ranks({1, 1});
  std::thread aborter([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ranks[0].abort(hvd::Error(ErrorCode::unavailable, "the agent is gone"));
  });
  const auto error = error_of([&] { ranks[0].barrier(kPatient); });
  aborter.join();
  REQUIRE(error.has_value());
  CHECK(error->text == "barrier(): the agent is gone");
  // Rank 0 had announced its barrier; the next one cannot be.
  const auto other = error_of([&] {
    for (int i = 0; i < 2; ++i) ranks[1].barrier(kPatient);
  });
  REQUIRE(other.has_value());
  CHECK(other->code == ErrorCode::unavailable);
  CHECK(contains(other->text, "rank 0 gave up: the agent is gone"));
}
