#include "coordinator/stall_text.h"
#include "tests/catch.h"
#include "tests/unit/coordinator/stall_fixture.h"

namespace hvdrun {
namespace {

using Lines = std::vector<std::string>;

Stall stall_of(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing) {
  Stall stall;
  stall.tensor = "grad.7";
  stall.age_ms = 61'900;
  stall.waiting = std::move(waiting);
  stall.missing = std::move(missing);
  return stall;
}

TEST_CASE_METHOD(StallFixture, "a warning names tensor, ranks, hosts and what they do", "[stall]") {
  RankPicture& stopped = says(2, {}, "grad.6");
  stopped.probe.state = "T";
  stopped.probe.wait_channel = "do_signal_stop";
  stopped.probe.stack = kHiddenStack;
  RankPicture& reads = says(4, {}, "");
  reads.probe.system_call = "read of pipe:[9]";
  reads.probe.stack = "pipe_read < vfs_read";
  const StallWarning warning = stall_warning(stall_of({0, 1, 3, 5}, {2, 4}), true, ranks, members);
  CHECK(warning.lines ==
        Lines{"tensor 'grad.7' waits since 61 s for rank 2, 4; submitted by rank 0, 1, 3, 5",
              "  rank 2 on a (pid 102, train): stopped in do_signal_stop; last submitted 'grad.6', "
              "7 in all; kernel stack not allowed",
              "  rank 4 on b (pid 104, train): sleeping in futex_do_wait, system call read of "
              "pipe:[9]; has submitted nothing",
              "    kernel stack: pipe_read < vfs_read"});
  CHECK(warning.tensor == "grad.7");
  CHECK(warning.waited_ms == 61'900);
  CHECK(warning.ends_job);
  CHECK(warning.waiting == 4);
  CHECK(warning.missing == 2);
  REQUIRE(warning.named.size() == 2);
  CHECK(warning.named[0].host == 0);
  CHECK(warning.named[0].state == "joined");
  CHECK(warning.named[0].picture.report.last_submitted == "grad.6");
  CHECK(warning.named[1].host == 1);
  CHECK(warning.named[1].picture.probe.rank == 4);
}

TEST_CASE_METHOD(StallFixture, "a warning names what else waits, for others", "[stall]") {
  says(1, {{"grad.8", 60'500}}, "grad.8");
  Stall stall = stall_of({0}, {1});
  Stall other = stall_of({1}, {0, 2});
  other.tensor = "grad.8";
  other.others = 2;
  stall.also = {other};
  stall.more = 3;
  const Lines lines = stall_warning(stall, false, ranks, members).lines;
  REQUIRE(lines.size() == 4);
  CHECK(lines[2] ==
        "  also: tensor 'grad.8' waits since 61 s for rank 0, 2; submitted by rank 1; 2 others "
        "wait with it");
  CHECK(lines[3] == "  also: 3 more, for others");
}

TEST_CASE_METHOD(StallFixture, "ranks of every state say what became of them", "[stall]") {
  Membership fresh;
  fresh.assign({{{"a", 6}}, 6});
  for (const std::uint32_t rank : {1U, 2U, 3U, 4U, 5U}) {
    fresh.set_pid(rank, 100 + rank);
    fresh.set_state(rank, RankState::started);
  }
  for (const std::uint32_t rank : {2U, 4U, 5U}) fresh.set_state(rank, RankState::joined);
  fresh.set_state(2, RankState::left);
  fresh.set_state(3, RankState::exited);
  says(1, {}, "");
  says(2, {}, "");
  says(4, {}, "grad.6").answered = false;
  CHECK(
      stall_warning(stall_of({}, {0, 1, 2, 3, 4, 5}), false, ranks, fresh).lines ==
      Lines{"tensor 'grad.7' waits since 61 s for rank 0-5; submitted by rank ",
            "  rank 0 on a: has not started",
            "  rank 1 on a (pid 101, train): sleeping in futex_do_wait; has not called hvd::init",
            "  rank 2 on a (pid 102, train): sleeping in futex_do_wait; has shut hvd down, or its "
            "line has ended",
            "  rank 3 on a: has ended",
            "  rank 4 on a (pid 104, train): sleeping in futex_do_wait; does not answer; when it "
            "last did: last submitted 'grad.6', 7 in all",
            "  rank 5 on a (pid 105): its host has not answered"});
  says(4, {}, "").answered = false;
  CHECK_THAT(stall_warning(stall_of({}, {4}), false, ranks, fresh).lines[1],
             Catch::EndsWith("; does not answer"));
  ranks[4].probe.state.clear();
  CHECK_THAT(stall_warning(stall_of({}, {4}), false, ranks, fresh).lines[1],
             Catch::Contains("): its process is gone; "));
  ranks[4].probe.state = "I";
  CHECK_THAT(stall_warning(stall_of({}, {4}), false, ranks, fresh).lines[1],
             Catch::Contains("): state I in futex_do_wait; "));
  CHECK(missing_lines({1}, ranks, fresh) ==
        Lines{"  rank 1 on a (pid 101, train): sleeping in futex_do_wait"});
  CHECK(missing_lines({}, ranks, fresh).empty());
}

TEST_CASE_METHOD(StallFixture, "long lists are folded", "[stall]") {
  Membership many;
  many.assign({{{"a", 100}}, 100});
  std::vector<std::uint32_t> even;
  std::vector<std::uint32_t> odd;
  for (std::uint32_t rank = 0; rank < 100; ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  Stall stall = stall_of(even, odd);
  stall.others = 3;
  const StallWarning warning = stall_warning(stall, false, {}, many);
  CHECK(warning.lines.front() ==
        "tensor 'grad.7' waits since 61 s for rank 1, 3, 5, 7, 9, 11, 13, 15 and 42 more; "
        "submitted by rank 0, 2, 4, 6, 8, 10, 12, 14 and 42 more; 3 others wait with it");
  CHECK(warning.lines.size() == 10);
  CHECK(warning.lines.back() == "  and 42 more");
  CHECK(warning.named.size() == 8);
  CHECK(warning.missing == 50);
  CHECK(stall_cause(stall, many) ==
        "tensor 'grad.7' had waited 61 s for rank 1 on a, rank 3 on a, rank 5 on a, rank 7 on a, "
        "rank 9 on a, rank 11 on a, rank 13 on a, rank 15 on a and 42 more");
  CHECK(missing_lines(odd, {}, many).back() == "  and 42 more");
}

TEST_CASE_METHOD(StallFixture, "an operation that all have submitted has nobody to blame",
                 "[stall]") {
  Stall stall = stall_of({0, 1, 2, 3, 4, 5}, {});
  stall.others = 1;
  CHECK(stall_warning(stall, false, ranks, members).lines ==
        Lines{"tensor 'grad.7' waits since 61 s, and every rank has submitted it; 1 other waits "
              "with it"});
  CHECK(stall_cause(stall, members) == "tensor 'grad.7' had waited 61 s, submitted by every rank");
  stall = stall_of({0, 1, 2, 3}, {});
  stall.too_many = {4, 5};
  CHECK(stall_warning(stall, false, ranks, members).lines ==
        Lines{"tensor 'grad.7' waits since 61 s; submitted by rank 0-3; unknown of rank 4, 5, "
              "which has too many that wait"});
  CHECK(stall_cause(stall, members) == "tensor 'grad.7' had waited 61 s");
  stall = stall_of({0, 1}, {});
  stall.of_set = true;
  CHECK(stall_warning(stall, false, ranks, members).lines ==
        Lines{"tensor 'grad.7' waits since 61 s, and every rank of the set has submitted it"});
  CHECK(stall_cause(stall, members) ==
        "tensor 'grad.7' had waited 61 s, submitted by every rank of the set");
  stall = stall_of({0, 1, 2, 3}, {});
  stall.in_join = {4, 5};
  CHECK(stall_warning(stall, false, ranks, members).lines ==
        Lines{"tensor 'grad.7' waits since 61 s, and every rank that has not joined has submitted "
              "it; rank 4, 5 have joined"});
}

TEST_CASE_METHOD(StallFixture, "what a user wrote does not steer the terminal", "[stall]") {
  RankPicture& rank = says(2, {}, "a\nb");
  rank.command = "\x1b[31m";
  Stall stall = stall_of({0}, {2});
  stall.tensor = "x\r\n";
  const auto lines = stall_warning(stall, false, ranks, members).lines;
  CHECK_THAT(lines[0], Catch::StartsWith("tensor 'x\\x0d\\n' waits"));
  CHECK_THAT(lines[1], Catch::Contains("\\x1b[31m") && Catch::Contains("'a\\nb'"));
}

}  // namespace
}  // namespace hvdrun
