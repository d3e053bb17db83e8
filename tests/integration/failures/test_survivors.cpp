// Nothing survives: whoever is killed, one second later no process of the job is alive. Counted
// from outside, over all of /proc.
#include <signal.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

std::string describe(const std::vector<ProcessInfo>& processes) {
  std::string text;
  for (const auto& info : processes)
    text += std::to_string(info.pid) + " " + info.name + " (" + info.cmdline + ") ";
  return text;
}

pid_t pid_of(const std::vector<ProcessInfo>& processes, const std::string& name) {
  for (const auto& info : processes)
    if (info.name == name) return info.pid;
  return 0;
}

// Each rank has a child, one in a session of its own and one that forked twice.
constexpr const char* kFamily =
    "sleep 300 & setsid sleep 300 & (setsid sleep 300 &) & trap '' TERM; sleep 300";

TEST_CASE("whoever is killed, nothing is left a second later", "[survivors]") {
  const std::string victim = GENERATE("hvdrun", "hvd-coordinator", "hvd-guard", "hvd-agent", "sh");
  const std::string control = GENERATE("unix", "tcp");
  CAPTURE(victim, control);
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  // For each of three ranks a shell and four sleeps.
  const std::map<std::string, int> names = {{"hvdrun", 1},    {"hvd-coordinator", 1},
                                            {"hvd-guard", 1}, {"hvd-agent", 1},
                                            {"sh", 3},        {"sleep", 12}};
  Background job({.args = {build_path("hvdrun"), "--control", control, "--grace", "0.2", "-np", "3",
                           "sh", "-c", kFamily},
                  .env = {marker}});
  const auto before = wait_for_processes(tag, names, 10s);
  INFO(describe(before));
  REQUIRE(before.size() == 19);
  const pid_t pid = pid_of(before, victim);
  REQUIRE(pid > 0);
  REQUIRE(kill(pid, SIGKILL) == 0);
  const auto left = wait_until_gone(tag, victim == "sh" ? 1500ms : 1000ms);
  INFO("left: " << describe(left));
  CHECK(left.empty());
  const int code = job.wait(3s);
  if (victim == "hvdrun") CHECK(code == 137);
  if (victim == "hvd-coordinator") CHECK(code == 70);
  if (victim == "hvd-guard" || victim == "hvd-agent") CHECK(code == 69);
  if (victim == "sh") CHECK(code == 137);
}

TEST_CASE("two of us are killed at once: the third cleans up alone", "[survivors]") {
  // Guard, agent and driver each are the only one who can in one of these.
  const auto [first, second] =
      GENERATE(table<std::string, std::string>({{"hvd-agent", "hvdrun"},
                                                {"hvd-guard", "hvdrun"},
                                                {"hvd-agent", "hvd-guard"},
                                                {"hvd-coordinator", "hvdrun"}}));
  CAPTURE(first, second);
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  Background job({.args = {build_path("hvdrun"), "--grace", "0.2", "-np", "3", "sh", "-c", kFamily},
                  .env = {marker}});
  const auto before = wait_for_processes(tag,
                                         {{"hvdrun", 1},
                                          {"hvd-coordinator", 1},
                                          {"hvd-guard", 1},
                                          {"hvd-agent", 1},
                                          {"sh", 3},
                                          {"sleep", 12}},
                                         10s);
  REQUIRE(before.size() == 19);
  // Stopped first, so that neither sees the other's end.
  for (const int signal : {SIGSTOP, SIGKILL})
    for (const std::string& victim : {first, second})
      REQUIRE(kill(pid_of(before, victim), signal) == 0);
  const auto left = wait_until_gone(tag, 1000ms);
  INFO("left: " << describe(left));
  CHECK(left.empty());
}

TEST_CASE("what a finished program leaves running is ended too", "[survivors]") {
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  const RunResult result =
      hvdrun({"-np", "2", "sh", "-c", "setsid sleep 300 & exit 0"}, {.env = {marker}});
  CHECK(result.exit_code == 0);
  CHECK(result.time < 3s);
  CHECK(wait_until_gone(tag, 100ms).empty());
}

TEST_CASE("the processes are nested, and the coordinator has a session of its own", "[survivors]") {
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  Background job({.args = {build_path("hvdrun"), "-np", "1", "sleep", "300"}, .env = {marker}});
  const auto all = wait_for_processes(
      tag,
      {{"hvdrun", 1}, {"hvd-coordinator", 1}, {"hvd-guard", 1}, {"hvd-agent", 1}, {"sleep", 1}},
      10s);
  REQUIRE(all.size() == 5);
  const auto parent = [&](const std::string& name) {
    for (const auto& info : all)
      if (info.name == name) return info.parent;
    return 0;
  };
  CHECK(parent("hvd-coordinator") == job.pid());
  CHECK(parent("hvd-guard") == job.pid());
  CHECK(parent("hvd-agent") == pid_of(all, "hvd-guard"));
  CHECK(parent("sleep") == pid_of(all, "hvd-agent"));
  const pid_t coordinator = pid_of(all, "hvd-coordinator");
  CHECK(getsid(coordinator) == coordinator);
  CHECK(getsid(pid_of(all, "hvd-guard")) != getsid(job.pid()));
  const pid_t worker = pid_of(all, "sleep");
  CHECK(getsid(worker) == worker);
}

}  // namespace
}  // namespace hvdrun::test
