#include "common/base/limits.h"
#include "coordinator/status_board.h"
#include "tests/catch.h"

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

TEST_CASE("texts that no agent makes are malformed", "[status]") {
  StatusBoard board;
  const auto request = board.ask(7, {0}, {});
  RankProbe longest = probe_of(0, 10, "S");
  longest.system_call = longest.wait_channel = std::string(limits::kMaxProcessText, 'x');
  longest.stack = std::string(limits::kMaxKernelStack, 'x');
  for (std::string RankProbe::*const text :
       {&RankProbe::state, &RankProbe::wait_channel, &RankProbe::system_call, &RankProbe::stack}) {
    RankProbe probe = longest;
    probe.*text = std::string(limits::kMaxKernelStack + 1, 'x');
    CHECK(board.answered(0, {request, {probe}}) == Errc::malformed);
  }
  CHECK(board.take_ready({}).empty());
  CHECK(board.answered(0, {request, {longest}}) == Errc::ok);
  CHECK(board.take_ready({}).size() == 1);
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

TEST_CASE("the status of a job with very many ranks fits a message", "[status]") {
  JobStatus status;
  status.size = limits::kMaxListItems + 1000;
  status.ranks.resize(status.size);
  status.hosts.assign(status.size / 8, std::string(20, 'h'));
  for (std::uint32_t rank = 0; rank < status.size; ++rank) {
    status.ranks[rank].host = rank / 8;
    status.ranks[rank].state = "joined";
    status.ranks[rank].probe = probe_of(rank, rank + 1, "S");
  }
  std::size_t shown = limits::kMaxListItems;
  SECTION("what they say is short") {}
  SECTION("each tells an error, as when one of them has died") {
    for (RankStatus& rank : status.ranks) rank.trouble.assign(limits::kMaxTrouble, 'e');
    shown = 70'000;
  }
  SECTION("each has a long stack") {
    for (std::size_t i = 0; i < 4096; ++i)
      status.ranks[i].probe.stack.assign(limits::kMaxKernelStack, 's');
    shown = 100'000;
  }
  SECTION("names of hosts are long") {
    for (std::string& host : status.hosts) host.assign(limits::kMaxHostName, 'h');
    shown = 100'000;
  }
  cut_to_limits(status);
  CHECK(status.ranks.size() >= shown);
  CHECK(status.ranks.back().host == status.hosts.size() - 1);
  const std::string payload = encode(status);
  CHECK(payload.size() <= limits::kMaxFramePayload);
  JobStatus read;
  CHECK_FALSE(decode(payload, read));
  CHECK(read.size == limits::kMaxListItems + 1000);
}

TEST_CASE("a status of a few ranks is told whole", "[status]") {
  JobStatus status;
  status.hosts = {"a", "b"};
  status.ranks.resize(2);
  status.ranks[1].host = 1;
  status.ranks[1].trouble.assign(limits::kMaxTrouble, 'e');
  status.ranks[1].probe.stack = "pipe_read < vfs_read";
  cut_to_limits(status);
  CHECK(status.ranks.size() == 2);
  CHECK(status.ranks[1].probe.stack == "pipe_read < vfs_read");
  CHECK(status.hosts.size() == 2);
  CHECK(status.ranks[1].trouble.size() == limits::kMaxTrouble);
}

}  // namespace
}  // namespace hvdrun
