#include <signal.h>

#include "cli/output/status_text.h"
#include "cli/run/job_report.h"
#include "cli/text/json_text.h"
#include "cli/text/stderr_tail.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

JobEnded failed_rank() {
  JobEnded verdict;
  verdict.cause = EndCause::rank_failed;
  verdict.rank = 3;
  verdict.pid = 77;
  verdict.host = "gpu1";
  verdict.value = 7;
  verdict.after_ms = 1250;
  return verdict;
}

TEST_CASE("hosts are lost when ranks of them are", "[report]") {
  const RankTable places({{"a", 2}, {"b", 2}, {"c", 1}}, 5);
  JobEnded verdict = failed_rank();
  verdict.victims = {{ExitKind::signaled, SIGTERM, {0, 1}}};
  CHECK(lost_hosts(verdict, places).empty());
  verdict.victims.push_back({ExitKind::lost, 0, {2, 3, 4, 99}});
  CHECK(lost_hosts(verdict, places) == std::set<std::uint32_t>{1, 2});
}

TEST_CASE("a verdict names rank, host, process, cause and time", "[report]") {
  JobEnded verdict = failed_rank();
  CHECK(describe_cause(verdict) == "rank 3 on gpu1 (pid 77) exited with code 7 after 1.25 s");
  verdict.kind = ExitKind::signaled;
  verdict.value = SIGSEGV;
  CHECK(describe_cause(verdict) ==
        "rank 3 on gpu1 (pid 77) was killed by signal 11 (SIGSEGV) after 1.25 s");
  verdict.value = SIGKILL;
  verdict.out_of_memory = true;
  CHECK_THAT(describe_cause(verdict), Catch::Contains("OOM"));
  verdict.kind = ExitKind::not_started;
  verdict.pid = 0;
  verdict.text = "'x': No such file or directory";
  CHECK(describe_cause(verdict) ==
        "rank 3 on gpu1 could not start: 'x': No such file or directory");
}

TEST_CASE("the block has the last words and folds the victims", "[report]") {
  JobEnded verdict = failed_rank();
  verdict.text = "allreduce: rank 1 is lost";
  verdict.victims = {{ExitKind::signaled, SIGTERM, {0, 1, 2, 4}}, {ExitKind::exited, 1, {5}}};
  CHECK(describe_failure(verdict, {"boom"}) ==
        std::vector<std::string>{"rank 3 on gpu1 (pid 77) exited with code 7 after 1.25 s",
                                 "  because allreduce: rank 1 is lost",
                                 "  its last lines on stderr:", "  | boom",
                                 "  then rank 0-2, 4 ended by signal 15 (SIGTERM); rank 5 exited "
                                 "with code 1"});
}

TEST_CASE("numbers of an elastic job that has had other ranks are slots", "[report]") {
  JobEnded verdict = failed_rank();
  verdict.victims = {{ExitKind::signaled, SIGTERM, {0, 1}}, {ExitKind::exited, 1, {5}}};
  verdict.by_slot = true;
  const auto lines = describe_failure(verdict, {});
  CHECK(lines.front() == "slot 3 on gpu1 (pid 77) exited with code 7 after 1.25 s");
  CHECK(lines.back() == "  then slot 0, 1 ended by signal 15 (SIGTERM); slot 5 exited with code 1");
}

TEST_CASE("a slot is named by its rank of the moment", "[report]") {
  JobStatus status;
  status.hosts = {"a"};
  status.size = 3;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    RankStatus rank;
    rank.state = "exited";
    rank.probe.rank = rank.rank = slot;
    status.ranks.push_back(rank);
  }
  status.ranks[1].rank = 0;
  status.ranks[2].takes_part = false;
  const auto lines = describe_status(status, {});
  CHECK(lines.at(1) == "  rank 0 on a: exited");
  CHECK(lines.at(2) == "  rank 0 (slot 1) on a: exited");
  CHECK(lines.at(3) == "  slot 2 (no rank in this epoch) on a: exited");
}

TEST_CASE("a code of the program that is also ours is said to be the program's", "[report]") {
  JobEnded verdict = failed_rank();
  verdict.value = 69;
  CHECK_THAT(describe_failure(verdict, {})[1], Catch::Contains("the program's own code"));
}

TEST_CASE("the other causes", "[report]") {
  JobEnded verdict;
  verdict.cause = EndCause::success;
  CHECK(describe_cause(verdict).empty());
  CHECK(describe_failure(verdict, {}).empty());
  verdict.cause = EndCause::aborted;
  verdict.value = SIGINT;
  CHECK(describe_cause(verdict) == "ended by signal 2 (SIGINT) after 0.00 s");
  CHECK(describe_failure(verdict, {}).size() == 1);
  verdict.value = SIGPIPE;
  CHECK(describe_failure(verdict, {}).empty());
  verdict.cause = EndCause::host_lost;
  verdict.host = "gpu1";
  verdict.text = "its agent is gone";
  CHECK(describe_cause(verdict) == "host gpu1 was lost after 0.00 s: its agent is gone");
  verdict.cause = EndCause::start_timeout;
  verdict.text = "gpu1, gpu2";
  CHECK_THAT(describe_cause(verdict), Catch::Contains("gpu1, gpu2"));
  verdict.cause = EndCause::never_joined;
  verdict.text = "rank 2 never reached hvd::init";
  CHECK_THAT(
      describe_cause(verdict),
      Catch::Contains(
          "rank 2 never reached hvd::init; the others waited there, and the job was ended after "));
  verdict.cause = EndCause::stalled;
  verdict.text = "tensor 'x' had waited 9 s for rank 2 on a";
  CHECK(describe_cause(verdict) ==
        "the job was ended after 0.00 s because tensor 'x' had waited 9 s for rank 2 on a");
  CHECK(describe_failure(verdict, {}).size() == 1);
  verdict.cause = EndCause::early_exit;
  CHECK_THAT(describe_cause(verdict), Catch::Contains("others still needed it"));
  verdict.cause = EndCause::not_startable;
  verdict.text = "host a: one\nhost b: two";
  CHECK(describe_cause(verdict) == "host a: one; host b: two; nothing was started");
  CHECK(describe_failure(verdict, {}) ==
        std::vector<std::string>{"host a: one", "host b: two", "nothing was started"});
}

TEST_CASE("the tail keeps the last lines of each rank, cut and bounded", "[report]") {
  StderrTail tail;
  CHECK(tail.lines(0).empty());
  tail.add(0, "one\ntw");
  tail.add(1, "other\n");
  tail.add(0, "o\rthree");
  CHECK(tail.lines(0) == std::vector<std::string>{"one", "two", "three"});
  CHECK(tail.lines(1) == std::vector<std::string>{"other"});
  for (int i = 0; i < 100; ++i) tail.add(0, "line " + std::to_string(i) + "\n");
  CHECK(tail.lines(0).size() == 12);
  CHECK(tail.lines(0).back() == "line 99");
  tail.add(1, std::string(100'000, 'x'));
  CHECK(tail.lines(1).back().size() == 400);
}

TEST_CASE("groups of one kind that a message has cut are one for people", "[report]") {
  JobEnded verdict;
  verdict.cause = EndCause::timeout;
  verdict.victims = {{ExitKind::signaled, SIGTERM, {0, 1, 2}},
                     {ExitKind::exited, 1, {3}},
                     {ExitKind::signaled, SIGTERM, {4, 5}}};
  CHECK(describe_failure(verdict, {}).back() ==
        "  then rank 0-2, 4, 5 ended by signal 15 (SIGTERM); rank 3 exited with code 1");
}

TEST_CASE("any bytes become valid JSON", "[report]") {
  CHECK(json_quoted("a\"b\\c\n") == "\"a\\\"b\\\\c\\u000a\"");
  CHECK(json_quoted("gr\xC3\xBC\xC3\x9F") == "\"gr\xC3\xBC\xC3\x9F\"");
  CHECK(json_quoted("\xFF\xC3") == "\"\\ufffd\\ufffd\"");
  CHECK(json_quoted("\xED\xA0\x80") == "\"\\ufffd\\ufffd\\ufffd\"");  // a surrogate
}

TEST_CASE("a status has a line for every rank", "[report]") {
  JobStatus status;
  status.job_id = "0123456789abcdef";
  status.state = "running";
  status.age_ms = 65'000;
  status.hosts = {"h"};
  status.argv = {"train", "-x"};
  status.size = 1002;
  status.ranks.resize(2);
  status.ranks[0].state = "joined";
  status.ranks[0].probe = {0, 42, "S", "futex_wait", 1500, 2048};
  status.ranks[0].probe.system_call = "futex";
  status.ranks[0].probe.stack = "futex_wait < do_futex";
  status.ranks[1].state = "exited";
  status.ranks[1].probe.rank = status.ranks[1].rank = 1;
  const auto lines =
      describe_status(status, [](std::uint32_t rank) { return rank == 0 ? "epoch 1" : ""; });
  REQUIRE(lines.size() == 5);
  CHECK(lines[4] == "  and 1000 more");
  CHECK(lines[0] == "job 01234567 running since 1 min 5 s, 1002 ranks of train -x");
  CHECK(lines[1] ==
        "  rank 0 on h: joined, pid 42 sleeping in futex_wait, system call futex, 1.5 s of CPU, 2 "
        "MiB, last line: epoch 1");
  CHECK(lines[2] == "      kernel stack: futex_wait < do_futex");
  CHECK(lines[3] == "  rank 1 on h: exited");
  // A stack that is not shown is not told.
  status.ranks[0].probe.stack = kHiddenStack;
  CHECK(describe_status(status, {}).size() == 4);
}

}  // namespace
}  // namespace hvdrun
