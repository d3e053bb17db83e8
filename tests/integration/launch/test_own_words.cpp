// Words of hvdrun itself that nobody reads: they wait behind the output of the ranks, within a
// bound. Nothing of the job waits for them.
#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <regex>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

template <class Done>
bool wait_until(Done done) {
  for (const auto deadline = Clock::now() + 20s; !done(); usleep(1000))
    if (Clock::now() > deadline) return false;
  return true;
}

bool wait_for_text(const std::string& path, const std::string& text) {
  return wait_until([&] { return contents(path).find(text) != std::string::npos; });
}

// A signal that comes while the last one is pending is none.
bool send_and_see_taken(pid_t pid, int signal) {
  kill(pid, signal);
  const std::string status = "/proc/" + std::to_string(pid) + "/status";
  return wait_until(
      [&] { return contents(status).find("ShdPnd:\t0000000000000000") != std::string::npos; });
}

// Bytes that a full pipe holds at least; its pages need not all be full.
constexpr std::size_t kStuffed = 30'000;

// Nobody reads the job's output, and its pipe takes no more of it.
bool wait_until_stuffed(const Background& job) {
  std::size_t before = 0;
  auto since = Clock::now();
  return wait_until([&] {
    const std::size_t now = job.unread();
    if (now != before) since = Clock::now();
    before = now;
    return now >= kStuffed && Clock::now() - since > 300ms;
  });
}

// A pipe of its own with no room left in it.
class StuffedFifo {
 public:
  explicit StuffedFifo(const std::string& path) {
    if (mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    fd_ = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const std::string line = std::string(4095, '#') + "\n";
    while (write(fd_, line.data(), line.size()) > 0) {
    }
  }
  ~StuffedFifo() { close(fd_); }
  StuffedFifo(const StuffedFifo&) = delete;
  StuffedFifo& operator=(const StuffedFifo&) = delete;

  std::string read_until(const std::string& text) {
    std::string all;
    pollfd wait{fd_, POLLIN, 0};
    char buffer[65536];
    while (all.find(text) == std::string::npos && poll(&wait, 1, 20'000) == 1)
      all.append(buffer,
                 static_cast<std::size_t>(std::max<ssize_t>(0, read(fd_, buffer, sizeof buffer))));
    return all;
  }

 private:
  int fd_ = -1;
};

TEST_CASE("a pipe that nobody reads stops nothing, and own lines are bounded", "[own_words]") {
  const TempFolder folder;
  const std::string events = folder.path() + "/events";
  const std::string probe = build_path("tests/integration/programs/stall_probe");
  // Rank 0 floods; rank 2 leaves a line open, which waits for its end. Ranks 0 and 1
  // wait for rank 2 then.
  const std::string program = "trap 'touch " + folder.path() +
                              "/$HVD_RANK' USR1; trap '[ $HVD_RANK != 1 ] || exit 3' USR2; "
                              "case $HVD_RANK in 0) yes flood & ;; "
                              "2) head -c 70000 /dev/zero | tr '\\0' y ;; esac; "
                              "(trap '' USR1 USR2; exec " +
                              probe + " read) & while :; do wait; done";
  Background job(
      {.args = {build_path("hvdrun"), "--events", events, "--stall-check-warning-time-seconds", "1",
                "-np", "3", "sh", "-c", program, "sh", std::string(100'000, 'a')}});
  REQUIRE(wait_until_stuffed(job));
  REQUIRE(wait_for_text(events, "\"event\":\"stall\""));
  // Each answer has the program's arguments, 100 kB.
  constexpr int kAsked = 8;
  for (int i = 0; i < kAsked; ++i) REQUIRE(send_and_see_taken(job.pid(), SIGQUIT));
  REQUIRE(send_and_see_taken(job.pid(), SIGUSR1));
  for (const char* rank : {"0", "1", "2"})
    REQUIRE(wait_until([&] { return access((folder.path() + "/" + rank).c_str(), F_OK) == 0; }));
  kill(job.pid(), SIGUSR2);
  REQUIRE(wait_for_text(events, "\"state\":\"exited\""));

  CHECK(job.wait(20s) == 3);
  const std::string& all = job.output();
  std::istringstream lines(all);
  int answers = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto own = line.find("hvdrun: ");
    const auto tag = line.find("]<std");  // on stderr a shell may tell of a signal
    const bool whole = own == 0 || (own == std::string::npos && tag == 2);
    if (!whole) FAIL_CHECK("torn: " << line.substr(0, 200));
    if (own == 0 && line.find(" ranks of sh -c ") != std::string::npos) ++answers;
  }
  CHECK(answers >= 2);
  CHECK(answers < kAsked);
  CHECK(std::regex_search(all, std::regex("\nhvdrun: \\d+ lines of hvdrun's own left out\n")));
  CHECK(all.find("\nhvdrun: tensor 'grad.7' waits since ") > kStuffed);
  CHECK(all.find("\nhvdrun: rank 1 on localhost (pid ") != std::string::npos);
  CHECK(all.find(") exited with code 3 after ") != std::string::npos);
}

TEST_CASE("the coordinator's warnings wait for a reader, the job's end does not", "[own_words]") {
  const TempFolder folder;
  const std::string events = folder.path() + "/events";
  const std::string probe = build_path("tests/integration/programs/stall_probe");
  Background job({.args = {build_path("hvdrun"), "--verbose", "--events", events,
                           "--stall-check-warning-time-seconds", "1",
                           "--stall-check-shutdown-time-seconds", "2", "-np", "2", "sh", "-c",
                           "[ $HVD_RANK = 1 ] || yes flood & exec " + probe + " absent"}});
  REQUIRE(wait_until_stuffed(job));
  REQUIRE(wait_for_text(events, "\"state\":\"exited\""));
  CHECK(job.wait(20s) == 80);
  const std::string& all = job.output();
  const auto steps = all.find("hvdrun: coordinator is process ");
  const auto warning = all.find("\nhvdrun: 1 rank waits in hvd::init since ");
  const auto summary = all.find("\nhvdrun: rank 1 never reached hvd::init");
  CHECK(steps < warning);
  CHECK(warning < summary);
  CHECK(summary != std::string::npos);
}

TEST_CASE("one signal is enough where nobody reads the output or the events", "[own_words]") {
  const TempFolder folder;
  StuffedFifo fifo(folder.path() + "/events");
  Background job({.args = {build_path("hvdrun"), "--verbose", "--events", folder.path() + "/events",
                           "-np", "2", "sh", "-c",
                           "trap 'touch " + folder.path() +
                               "/$HVD_RANK' USR1; (trap '' USR1; exec yes flood) & "
                               "while :; do wait; done"}});
  REQUIRE(wait_until_stuffed(job));
  REQUIRE(send_and_see_taken(job.pid(), SIGUSR1));
  for (const char* rank : {"0", "1"})
    REQUIRE(wait_until([&] { return access((folder.path() + "/" + rank).c_str(), F_OK) == 0; }));
  kill(job.pid(), SIGTERM);
  CHECK(job.wait_unread(20s) == 143);
}

TEST_CASE("events for a pipe wait for its reader, and the job does not", "[own_words]") {
  const TempFolder folder;
  StuffedFifo fifo(folder.path() + "/events");
  Background job({.args = {build_path("hvdrun"), "--events", folder.path() + "/events", "-np", "2",
                           "echo", "hi"}});
  for (const char* rank : {"0", "1"})
    job.wait_for_output("[" + std::string(rank) + "]<stdout>:hi\n", 20s);
  const std::string end =
      "\"event\":\"job_ended\",\"cause\":\"success\",\"exit_code\":0,"
      "\"exit_code_of\":\"program\"}\n";
  std::istringstream events(fifo.read_until(end));
  int told = 0;
  for (std::string line; std::getline(events, line);) {
    if (line.starts_with('#')) continue;
    CHECK(line.starts_with("{\"time\":\""));
    CHECK(line.ends_with("}"));
    ++told;
  }
  CHECK(told == 6);  // the job's begin and end, and two of each rank
  CHECK(job.wait(20s) == 0);
}

TEST_CASE("events for a pipe that nobody reads are given up after a signal", "[own_words]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/events";
  StuffedFifo fifo(path);
  Background job({.args = {build_path("hvdrun"), "--events", path, "-np", "1", "sh", "-c",
                           "echo hi; exec sleep 300"}});
  job.wait_for_output("[0]<stdout>:hi\n", 20s);
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(20s) == 143);
  CHECK(job.output().find("\nhvdrun: --events " + path +
                          ": nobody reads it; no more events are written\n") != std::string::npos);
}

TEST_CASE("a guard's words are lines among the others", "[own_words]") {
  const TempFolder folder;
  const std::string agent =
      folder.file("agent", "#!/bin/sh\nprintf 'hvd-agent: first\\nhvd-agent: last' >&2; exit 1\n");
  REQUIRE(chmod(agent.c_str(), 0700) == 0);
  const RunResult result = hvdrun({"-np", "1", "true"}, {.env = {{"HVDRUN_AGENT", agent}}});
  CHECK(result.exit_code == 69);
  CHECK_THAT(result.err, Catch::StartsWith("hvd-agent: first\nhvd-agent: last\nhvdrun: host "
                                           "localhost was lost"));
}

}  // namespace
}  // namespace hvdrun::test
