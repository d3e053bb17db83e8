#include <cerrno>
#include <signal.h>

#include "common/base/limits.h"
#include "common/base/rank_ranges.h"
#include "coordinator/first_cause.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

// Four ranks on one host, all joined.
struct CauseFixture {
  CauseFixture() : causes(4) {
    members.assign({{{"h", 4}}, 4});
    for (std::uint32_t rank = 0; rank < 4; ++rank) members.set_state(rank, RankState::joined);
  }
  std::optional<JobEnded> end(std::uint32_t rank, ExitKind kind, std::uint32_t value) {
    causes.ended({rank, 1, kind, value, false, false, {}});
    members.set_state(rank, RankState::exited);
    return causes.judge(rank, members, now);
  }

  Membership members;
  FirstCause causes;
  TimePoint now{};
};

TEST_CASE_METHOD(CauseFixture, "a failure of its own is the cause", "[cause]") {
  CHECK_FALSE(end(0, ExitKind::exited, 0));
  const auto verdict = end(1, ExitKind::signaled, SIGSEGV);
  REQUIRE(verdict);
  CHECK(verdict->cause == EndCause::rank_failed);
  CHECK(verdict->rank == 1);
  CHECK(verdict->exit_code == 139);
}

TEST_CASE_METHOD(CauseFixture, "who fails for lack of a rank that ended well is its victim",
                 "[cause]") {
  CHECK_FALSE(end(2, ExitKind::exited, 0));
  causes.trouble(0, Errc::peer_lost, "allreduce: rank 2 is lost");
  const auto verdict = end(0, ExitKind::exited, 1);
  REQUIRE(verdict);
  CHECK(verdict->cause == EndCause::early_exit);
  CHECK(verdict->rank == 2);
  CHECK(verdict->exit_code == 81);
  CHECK(verdict->text == "rank 0: allreduce: rank 2 is lost");
}

TEST_CASE_METHOD(CauseFixture, "a rank that is about to end is waited for", "[cause]") {
  members.set_state(3, RankState::left);
  causes.trouble(0, Errc::peer_lost, "allreduce: rank 3 is lost");
  CHECK_FALSE(end(0, ExitKind::exited, 1));
  REQUIRE(causes.next_deadline());
  SECTION("it was killed: that is the cause") {
    const auto verdict = end(3, ExitKind::signaled, SIGKILL);
    REQUIRE(verdict);
    CHECK(verdict->rank == 3);
    CHECK(verdict->exit_code == 137);
    CHECK_FALSE(causes.next_deadline());
  }
  SECTION("it ended well: too early") {
    const auto verdict = end(3, ExitKind::exited, 0);
    REQUIRE(verdict);
    CHECK(verdict->cause == EndCause::early_exit);
    CHECK(verdict->rank == 3);
  }
  SECTION("it does not end: the one that failed is named") {
    CHECK_FALSE(causes.tick(now));
    const auto verdict = causes.tick(now + 1s);
    REQUIRE(verdict);
    CHECK(verdict->rank == 0);
    CHECK(verdict->text == "allreduce: rank 3 is lost");
    CHECK_FALSE(causes.tick(now + 2s));
  }
}

TEST_CASE("ranks that never joined may be going at any time", "[cause]") {
  Membership members;
  members.assign({{{"h", 3}}, 3});
  for (std::uint32_t rank = 0; rank < 3; ++rank) members.set_state(rank, RankState::started);
  FirstCause causes(3);
  TimePoint now{};
  const auto end = [&](std::uint32_t rank, std::uint32_t code) {
    causes.ended({rank, 1, ExitKind::exited, code, false, false, {}});
    members.set_state(rank, RankState::exited);
    return causes.judge(rank, members, now);
  };
  // Words that the agent has read on their stderr.
  causes.trouble(0, Errc::peer_lost, "Connection closed by peer");
  causes.trouble(2, Errc::peer_lost, "Connection closed by peer");
  CHECK_FALSE(end(0, 1));
  CHECK_FALSE(end(2, 1));
  const auto verdict = end(1, 3);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->exit_code == 3);
}

TEST_CASE_METHOD(CauseFixture, "a rank that gave up waiting in init names the missing", "[cause]") {
  InitWatch init("hvd::init", std::chrono::seconds(60));
  init.update({0, 2}, {1, 3}, now);
  causes.trouble(0, Errc::timeout, "hvd::init(): not all of the 4 ranks arrived in time", &init);
  const auto verdict = end(0, ExitKind::exited, 1);
  REQUIRE(verdict);
  CHECK(verdict->cause == EndCause::never_joined);
  CHECK(verdict->text == "rank 1, 3 never reached hvd::init");
  CHECK(verdict->exit_code == 80);
}

TEST_CASE_METHOD(CauseFixture, "who gave up in init while all were there waits to hear why",
                 "[cause]") {
  InitWatch init("hvd::init", std::chrono::seconds(60));
  init.update({0, 1, 2, 3}, {}, now);
  CHECK_FALSE(causes.wants_explanation());
  causes.trouble(0, Errc::timeout, "hvd::init(): waited 60 s for rank 3", &init);
  causes.trouble(1, Errc::aborted, "hvd::init(): no connection to rank 0", &init);
  CHECK(causes.wants_explanation());
  CHECK_FALSE(end(0, ExitKind::exited, 9));
  causes.trouble(2, Errc::peer_lost, "hvd::init(): rank 0 is lost");
  CHECK_FALSE(end(2, ExitKind::exited, 9));
  SECTION("it is known who holds it up") {
    const auto verdict = causes.init_explained("rank 3 hangs in hvd::init");
    REQUIRE(verdict);
    CHECK(verdict->cause == EndCause::never_joined);
    CHECK(verdict->text == "rank 3 hangs in hvd::init");
    CHECK_FALSE(causes.wants_explanation());
    CHECK_FALSE(causes.next_deadline());
    CHECK(end(1, ExitKind::exited, 9)->text == "rank 3 hangs in hvd::init");
  }
  SECTION("it stays unknown") {
    REQUIRE(causes.next_deadline());
    const auto verdict = causes.tick(*causes.next_deadline());
    REQUIRE(verdict);
    CHECK(verdict->cause == EndCause::rank_failed);
    CHECK(verdict->rank == 0);
    CHECK(verdict->text == "hvd::init(): waited 60 s for rank 3");
  }
  SECTION("one is killed: that is a cause of its own") {
    const auto verdict = end(3, ExitKind::signaled, SIGKILL);
    REQUIRE(verdict);
    CHECK(verdict->rank == 3);
  }
}

TEST_CASE_METHOD(CauseFixture, "who gave up in an init and is through the next waits for no reason",
                 "[cause]") {
  InitWatch init("hvd::init", std::chrono::seconds(60));
  init.update({0, 1, 2, 3}, {}, now);
  causes.trouble(0, Errc::timeout, "hvd::init(): waited 60 s for rank 3", &init);
  causes.init_opened();
  CHECK_FALSE(causes.wants_explanation());
  const auto verdict = end(0, ExitKind::exited, 9);
  REQUIRE(verdict);
  CHECK(verdict->rank == 0);
}

TEST_CASE_METHOD(CauseFixture, "it may be known who holds init up before a rank has ended",
                 "[cause]") {
  InitWatch init("hvd::init", std::chrono::seconds(60));
  init.update({0, 1, 2, 3}, {}, now);
  causes.trouble(0, Errc::timeout, "hvd::init(): waited 60 s for rank 3", &init);
  CHECK_FALSE(causes.init_explained("rank 3 hangs in hvd::init"));
  CHECK(end(0, ExitKind::exited, 9)->text == "rank 3 hangs in hvd::init");
}

TEST_CASE_METHOD(CauseFixture, "victims that ended alike stand together", "[cause]") {
  end(0, ExitKind::signaled, SIGTERM);
  end(1, ExitKind::exited, 3);
  end(2, ExitKind::signaled, SIGTERM);
  causes.lost(3);
  const auto groups = causes.victims(1);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].ranks == std::vector<std::uint32_t>{0, 2});
  CHECK(groups[1].kind == ExitKind::lost);
}

TEST_CASE_METHOD(CauseFixture, "a rank that is started again has neither ended nor said anything",
                 "[cause]") {
  CHECK_FALSE(end(2, ExitKind::exited, 0));
  causes.restarted(2);
  members.restart(2);
  CHECK_FALSE(causes.ended_well(2));
  CHECK(causes.victims(std::nullopt).empty());
  SECTION("who fails for lack of another is no victim of its old process") {
    for (const std::uint32_t rank : {1U, 2U, 3U}) members.set_state(rank, RankState::joined);
    causes.trouble(0, Errc::peer_lost, "allreduce: rank 2 is lost");
    const auto verdict = end(0, ExitKind::exited, 1);
    REQUIRE((verdict || causes.next_deadline()));
    CHECK((verdict ? verdict->rank : causes.tick(now + 1s)->rank) == 0);
  }
  SECTION("nobody waits to hear who held it up") {
    InitWatch init("hvd::init", std::chrono::seconds(60));
    init.update({0, 1, 2, 3}, {}, now);
    causes.trouble(2, Errc::timeout, "hvd::init(): waited 60 s for rank 3", &init);
    CHECK(causes.wants_explanation());
    CHECK_FALSE(end(2, ExitKind::exited, 9));
    CHECK(causes.next_deadline());
    causes.restarted(2);
    CHECK_FALSE(causes.wants_explanation());
    CHECK_FALSE(causes.next_deadline());
    CHECK(causes.trouble_of(2).empty());
    CHECK_FALSE(causes.init_explained("rank 3 hangs in hvd::init"));
  }
}

TEST_CASE_METHOD(CauseFixture, "trouble of an epoch is forgotten with it, ends are not",
                 "[cause]") {
  InitWatch init("hvd::init", std::chrono::seconds(60));
  init.update({0, 1, 2, 3}, {}, now);
  causes.trouble(0, Errc::timeout, "hvd::init(): waited 60 s for rank 3", &init);
  causes.trouble(1, Errc::peer_lost, "allreduce: rank 2 is lost");
  causes.trouble(3, Errc::aborted, "GPU 3 is of no use to this process any more");
  end(2, ExitKind::exited, 0);
  causes.begin_epoch({0, 1});
  CHECK(causes.trouble_of(0).empty());
  CHECK(causes.trouble_of(1).empty());
  // It is about to end, and takes no part.
  CHECK(causes.trouble_of(3) == "GPU 3 is of no use to this process any more");
  CHECK_FALSE(causes.wants_explanation());
  CHECK(causes.ended_well(2));
  const auto verdict = end(1, ExitKind::exited, 3);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->text.empty());
}

TEST_CASE("ranks for people", "[cause]") {
  CHECK(rank_ranges({}).empty());
  CHECK(rank_ranges({4}) == "4");
  CHECK(rank_ranges({0, 1, 2, 3}) == "0-3");
  CHECK(rank_ranges({0, 1, 5, 7, 8, 9}) == "0, 1, 5, 7-9");
  CHECK(rank_ranges({0, 1, 5, 7, 8, 9}, 4) == "0, 1, 5, 7-9");
  CHECK(rank_ranges({0, 1, 5, 7, 8, 9}, 3) == "0, 1, 5 and 3 more");
  CHECK(rank_ranges({0, 1, 2, 5, 7}, 1) == "0-2 and 2 more");
}

TEST_CASE("a verdict with more victims than a list holds can be read", "[cause]") {
  constexpr auto kRanks = static_cast<std::uint32_t>(limits::kMaxListItems + 10);
  FirstCause many(kRanks);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    many.ended({rank, 1, ExitKind::signaled, rank == 5 ? 9U : 15U, true, false, {}});
  JobEnded verdict;
  verdict.victims = many.victims(0);
  JobEnded read;
  REQUIRE_FALSE(decode(encode(verdict), read));
  std::size_t told = 0;
  for (const Victims& group : read.victims) told += group.ranks.size();
  CHECK(told == kRanks - 1);
  CHECK(read.victims.size() == 3);
}

TEST_CASE("who is missing of very many is named in a line that people read", "[cause]") {
  InitWatch init("hvd::init", 60s, 60s);
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 1; rank < 2000; rank += 2) missing.push_back(rank);
  init.update({0}, missing, TimePoint{});
  const std::string text = who_never_joined(init);
  CHECK(text.starts_with("rank 1, 3, 5, "));
  CHECK(text.ends_with("125, 127 and 936 more never reached hvd::init"));
  CHECK(init.warning(TimePoint{}).ends_with("125, 127 and 936 more"));
}

}  // namespace
}  // namespace hvdrun
