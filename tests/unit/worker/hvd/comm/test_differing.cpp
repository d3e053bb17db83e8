// Ranks that call different things, over and over, between operations that all call.
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/hosts/host_threads.h"
#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/trouble.h"

using namespace hvdrun;
using namespace hvdrun::test;
using std::chrono::milliseconds;

namespace {

struct Round {
  Case called;
  Case instead;              // by the odd ones
  std::uint64_t odd_ones{};  // bits; 0: everybody calls the same
  bool named = false;        // the odd ones call the same by another name
};

std::vector<Round> random_rounds(std::uint64_t seed, std::size_t count, int ranks) {
  const std::vector<Case> cases = random_cases(seed, 2 * count, ranks);
  std::mt19937_64 random(seed + 1);
  std::vector<Round> rounds;
  for (std::size_t i = 0; i < count; ++i) {
    Round round{cases[2 * i], cases[2 * i + 1], 0, random() % 4 == 0};
    const std::uint64_t everybody = (1U << ranks) - 1;
    if (random() % 2 == 0) round.odd_ones = random() & everybody;
    if (round.odd_ones == everybody) round.odd_ones = 1;
    // Something that certainly differs.
    if (!round.named && round.called.kind == round.instead.kind) round.instead = Case{};
    if (!round.named && round.called.kind == OpKind::barrier) round.named = true;
    rounds.push_back(round);
  }
  return rounds;
}

template <class Ranks>
void check_rounds(Ranks& ranks, const std::vector<Round>& rounds) {
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          const CallOptions plain{.timeout = milliseconds(60'000)};
          const auto bit = std::uint64_t{1} << static_cast<unsigned>(communicator.rank());
          BufferSource* const memory = &ranks.buffers(communicator.rank());
          for (const Round& round : rounds) {
            if (round.odd_ones != 0) {
              const bool odd = (round.odd_ones & bit) != 0;
              CallOptions options = plain;
              if (odd && round.named) options.fingerprint = 7;
              bool differed = false;
              try {
                check_collective(odd && !round.named ? round.instead : round.called, communicator,
                                 options, memory);
              } catch (const Differs&) {
                differed = true;
              }
              expect(differed, "called something else: " + name_of(round.called));
            }
            check_collective(round.called, communicator, plain, memory);
          }
        })) == "");
}

}  // namespace

TEST_CASE("ranks that called different things go on as if they had not", "[comm][differing]") {
  const int size = GENERATE(2, 3, 5);
  const auto seed = test::soak_seed("differing operations");
  CAPTURE(size, seed);
  RankThreads ranks(size);
  check_rounds(ranks, random_rounds(seed, test::soak_count(kThorough ? 10'000 : 600), size));
}

TEST_CASE("ranks on several hosts that called different things go on", "[hosts][differing]") {
  const auto counts = GENERATE(std::vector<std::size_t>{1, 1}, std::vector<std::size_t>{2, 1},
                               std::vector<std::size_t>{1, 2, 1}, std::vector<std::size_t>{3, 2});
  const bool encrypt = counts.size() == 3;
  const auto seed = test::soak_seed("differing operations across hosts");
  CAPTURE(counts, seed);
  HostThreads ranks(counts, encrypt);
  check_rounds(ranks, random_rounds(seed, test::soak_count(kThorough ? 10'000 : 600),
                                    static_cast<int>(ranks.layout().size())));
}

TEST_CASE("a rank with nothing to call learns that another one waits", "[comm][differing]") {
  const bool hosts = GENERATE(false, true);
  const auto check = [](auto& ranks, int size) {
    const int first = GENERATE_COPY(0, size - 1);
    CAPTURE(size, first);
    CHECK(first_error(ranks.run([&](Communicator& communicator) {
            for (int round = 0; round < 20; ++round) {
              if (communicator.rank() != first)
                while (!communicator.await_others(milliseconds(10'000)))
                  expect(false, "nobody came");
              communicator.barrier(kPatient);
            }
          })) == "");
  };
  if (hosts) {
    HostThreads ranks({2, 1, 1});
    check(ranks, 4);
  } else {
    RankThreads ranks(3);
    check(ranks, 3);
  }
}

TEST_CASE("a rank with nothing to call can be woken, and has a deadline", "[comm][differing]") {
  HostThreads hosts({2, 1});
  for (const std::size_t rank : {0U, 1U, 2U}) {
    CHECK_FALSE(hosts[rank].await_others(milliseconds(1)));
    std::thread waker([&] { hosts[rank].wake(); });
    CHECK_FALSE(hosts[rank].await_others(milliseconds(60'000)));
    waker.join();
  }
}

TEST_CASE("a rank with nothing to call hears of a lost one", "[comm][differing]") {
  const bool across = GENERATE(false, true);
  HostThreads hosts({2, 1});
  const std::size_t lost = across ? 2 : 1;
  const hvd::Error reason(hvd::ErrorCode::peer_lost, "the rank was killed");
  std::thread teller([&] { hosts[0].peer_gone(static_cast<int>(lost), reason); });
  const auto error = error_of([&] { hosts[0].await_others(milliseconds(60'000)); });
  teller.join();
  REQUIRE(error);
  CHECK(error->code == hvd::ErrorCode::peer_lost);
  CHECK(error->text == "the rank was killed");
  // The others hear it from this one.
  const auto other = error_of([&] { hosts[across ? 1 : 2].await_others(milliseconds(60'000)); });
  REQUIRE(other);
  CHECK(other->code == hvd::ErrorCode::peer_lost);
}

TEST_CASE("others that wait already hear of it when a rank gives up", "[comm][differing]") {
  const Counts counts = GENERATE(Counts{3}, Counts{1, 1}, Counts{2, 1}, Counts{1, 2});
  CAPTURE(counts);
  HostThreads ranks(counts);
  const int last = static_cast<int>(ranks.layout().size()) - 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = ranks.run([&](Communicator& communicator) {
    if (communicator.rank() != last) return communicator.barrier(kPatient);
    while (!communicator.await_others(milliseconds(10'000))) expect(false, "nobody came");
    communicator.abort({hvd::ErrorCode::internal, "no memory"});
    communicator.await_others(milliseconds(0));
    // Its end would be told as well.
    std::this_thread::sleep_for(milliseconds(5'000));
  });
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(5'000));
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == hvd::ErrorCode::internal);
    CHECK_THAT(error->text, Catch::Matchers::Contains("no memory"));
  }
}
