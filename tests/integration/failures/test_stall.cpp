// Ranks that wait for one that does not take part: who is named, with what, and how the job ends.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

RunResult stalled_job(const std::string& what, const std::vector<std::string>& options,
                      bool by_shell = false) {
  // An agent for each host, all on this machine.
  std::vector<std::string> args{"--transport", "local", "-H", "a:2,b:2", "-np", "3"};
  args.insert(args.end(), options.begin(), options.end());
  const std::string program = build_path("tests/integration/programs/stall_probe");
  if (by_shell) {
    args.insert(args.end(), {"sh", "-c", program + " " + what + "; exit $?"});
  } else {
    args.insert(args.end(), {program, what});
  }
  return hvdrun(args);
}

TEST_CASE("a stall names tensor, missing rank and host, and what that does", "[stall]") {
  const TempFolder folder;
  const std::string events = folder.path() + "/events";
  const RunResult result =
      stalled_job("read", {"--stall-check-warning-time-seconds", "1",
                           "--stall-check-shutdown-time-seconds", "3", "--events", events});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 82);
  CHECK(result.time < std::chrono::seconds(15));
  CHECK_THAT(result.out, Catch::Contains("warning 1000 shutdown 3000"));
  CHECK(std::regex_search(
      result.err, std::regex("hvdrun: tensor 'grad.7' waits since [1-3] s for rank 2; submitted by "
                             "rank 0, 1; 1 other waits with it\\n")));
  const std::regex rank(
      "hvdrun:   rank 2 on b \\(pid \\d+, stall_probe\\): sleeping( in \\w+)?(, system call read "
      "of "
      "pipe:\\[\\d+\\])?; last submitted 'grad.6', 7 in all");
  CHECK(std::regex_search(result.err, rank));
  // Where the kernel shows stacks (to root), it has to be there, and the system call as well.
  std::ifstream own("/proc/self/stack");
  if (std::string frame; std::getline(own, frame) && !frame.empty()) {
    CHECK(std::regex_search(result.err, std::regex("rank 2 on b .* system call read of pipe:")));
    CHECK(std::regex_search(result.err, std::regex("    kernel stack: \\w+.*pipe_read")));
  } else {
    WARN("left out: this kernel shows no stack");
  }
  // At 1, 2 and 3 s, however many ranks say so.
  CHECK(times_in(result.err, "'grad.7' waits since") <= 3);
  CHECK(std::regex_search(result.err,
                          std::regex("hvdrun: the job was ended after \\S+ s because tensor "
                                     "'grad.7' had waited \\d+ s for rank 2 on b\n")));
  std::ifstream file(events);
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  CHECK(std::regex_search(
      log,
      std::regex("\"event\":\"stall\",\"tensor\":\"grad.7\",\"waited_ms\":\\d{4},\"waiting\":2,"
                 "\"missing\":1,\"missing_ranks\":\\[\\{\"rank\":2,\"host\":\"b\",\"state\":"
                 "\"joined\",\"pid\":\\d+,\"command\":\"stall_probe\",\"process\":\"S\".*"
                 "\"last_submitted\":\"grad.6\",\"submitted\":7,\"answered\":true\\}\\],"
                 "\"ends_job\":false\\}\n")));
  CHECK_THAT(log, Catch::Contains("\"ends_job\":true"));
  CHECK_THAT(log, Catch::Contains("\"cause\":\"stalled\",\"exit_code\":82"));
}

TEST_CASE("a rank that is stopped is seen as stopped, not the shell that waits for it", "[stall]") {
  const RunResult result = stalled_job(
      "stop",
      {"--stall-check-warning-time-seconds", "1", "--stall-check-shutdown-time-seconds", "1"},
      true);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 82);
  CHECK(std::regex_search(
      result.err,
      std::regex("rank 2 on b \\(pid \\d+, stall_probe\\): stopped.*; does not answer")));
}

TEST_CASE("a job in which the rank comes after all goes on", "[stall]") {
  const RunResult result = stalled_job("4000", {"--stall-check-warning-time-seconds", "1"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(times_in(result.err, "'grad.7' waits since") >= 1);
  CHECK(times_in(result.err, "'grad.7' waits since") <= 4);
}

TEST_CASE("without the check nobody is warned", "[stall]") {
  if (!takes_turn(2)) return;
  const auto options = GENERATE(std::vector<std::string>{"--no-stall-check"},
                                std::vector<std::string>{"--disable-stall-check"},
                                std::vector<std::string>{"-x", "HOROVOD_STALL_CHECK_DISABLE=1"});
  CAPTURE(options);
  auto all = options;
  all.insert(all.begin(), {"--stall-check-warning-time-seconds", "1"});
  const RunResult result = stalled_job("1800", all);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("warning 0 shutdown 0"));
  CHECK(result.err.empty());
}

TEST_CASE("a rank that never calls init is looked at, and ends the job in time", "[stall]") {
  const RunResult result = stalled_job("absent", {"--stall-check-warning-time-seconds", "1",
                                                  "--stall-check-shutdown-time-seconds", "2"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 80);
  CHECK(std::regex_search(result.err,
                          std::regex("2 ranks wait in hvd::init since [12] s for rank 2\\n")));
  CHECK(std::regex_search(result.err,
                          std::regex("  rank 2 on b \\(pid \\d+, stall_probe\\): sleeping")));
  CHECK_THAT(result.err, Catch::Contains("rank 2 never reached hvd::init"));
}

}  // namespace
}  // namespace hvdrun::test
