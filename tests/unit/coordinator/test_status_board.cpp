#include <catch2/catch.hpp>

#include "coordinator/status_board.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

RankProbe probe_of(std::uint32_t rank, std::uint32_t pid, const char* state) {
  RankProbe probe;
  probe.rank = rank;
  probe.pid = pid;
  probe.state = state;
  return probe;
}

TEST_CASE("an answer is complete when every host has spoken", "[status]") {
  StatusBoard board;
  const TimePoint now{};
  const auto request = board.ask(7, {0, 2}, now);
  CHECK(board.take_ready(now).empty());
  board.answered(0, {request, {probe_of(0, 10, "S")}});
  board.answered(0, {request, {probe_of(0, 10, "S")}});      // twice counts once
  board.answered(1, {request, {probe_of(1, 11, "S")}});      // was not asked
  board.answered(2, {request + 1, {probe_of(2, 12, "S")}});  // another question
  CHECK(board.take_ready(now).empty());
  board.answered(2, {request, {probe_of(2, 12, "D")}});
  const auto ready = board.take_ready(now);
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].asker == 7);
  CHECK(ready[0].probes.size() == 2);
  CHECK(board.take_ready(now).empty());
  CHECK_FALSE(board.next_deadline());
}

TEST_CASE("a silent or lost host does not keep the answer", "[status]") {
  StatusBoard board;
  const TimePoint now{};
  board.ask(1, {0, 1}, now);
  board.forget_host(0);
  CHECK(board.take_ready(now).empty());
  REQUIRE(board.next_deadline());
  CHECK(board.take_ready(*board.next_deadline()).size() == 1);
}

TEST_CASE("a probe of another process than the rank's is dropped", "[status]") {
  JobStatus status;
  status.ranks.resize(2);
  status.ranks[0].probe.pid = 10;
  status.ranks[1].probe.pid = 11;
  add_probes(status, {probe_of(0, 10, "S"), probe_of(1, 99, "S"), probe_of(7, 1, "S")});
  CHECK(status.ranks[0].probe.state == "S");
  CHECK(status.ranks[1].probe.state.empty());
}

}  // namespace
}  // namespace hvdrun
