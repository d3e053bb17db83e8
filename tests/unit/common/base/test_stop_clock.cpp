#include <poll.h>
#include <signal.h>

#include "common/base/stop_clock.h"
#include "common/process/process.h"
#include "common/process/stopped_children.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a child that runs costs no look", "[stop]") {
  const TimePoint start{1000s};
  StopClock clock(15s);
  CHECK_FALSE(clock.next_look());
  clock.saw(false, start);
  CHECK_FALSE(clock.next_look());
  clock.saw(true, start);
  CHECK(clock.next_look() == start + 1s);
  clock.saw(false, start + 500ms);
  CHECK_FALSE(clock.next_look());
}

TEST_CASE("a stop is named once, and over after the lease", "[stop]") {
  const TimePoint start{1000s};
  StopClock clock(8s);
  for (int second = 0; second < 8; ++second) {
    clock.saw(true, start + second * 1s);
    clock.saw(true, start + second * 1s + 500ms);
    CHECK(clock.names_stop() == (second == 3));
    CHECK_FALSE(clock.is_over());
  }
  clock.saw(true, start + 8s);
  CHECK(clock.is_over());
  CHECK(clock.stopped_for() == 8s);
  clock.saw(false, start + 8s);
  CHECK_FALSE(clock.is_over());
}

TEST_CASE("a stop after another begins at nothing", "[stop]") {
  const TimePoint start{1000s};
  StopClock clock(8s);
  for (int second = 0; second < 5; ++second) clock.saw(true, start + second * 1s);
  CHECK(clock.names_stop());
  CHECK_FALSE(clock.names_end());
  clock.saw(false, start + 4s);
  CHECK(clock.names_end());
  CHECK_FALSE(clock.names_end());
  for (int second = 4; second < 12; ++second) {
    clock.saw(true, start + second * 1s);
    CHECK_FALSE(clock.is_over());
  }
  CHECK(clock.names_stop());
}

TEST_CASE("a stop that nobody was told of ends without a word", "[stop]") {
  const TimePoint start{1000s};
  StopClock clock(8s);
  clock.saw(true, start);
  clock.saw(std::nullopt, start + 1s);
  CHECK(clock.stopped_for() == 1s);
  clock.saw(false, start + 2s);
  CHECK_FALSE(clock.names_end());
  clock.saw(std::nullopt, start + 9s);
  CHECK(clock.stopped_for() == 0s);
}

TEST_CASE("time in which the watcher stood still too is one look", "[stop]") {
  const TimePoint start{1000s};
  StopClock clock(8s);
  clock.saw(true, start);
  clock.saw(true, start + 3600s);
  CHECK(clock.stopped_for() == 1s);
  CHECK_FALSE(clock.is_over());
  // With a short lease the looks are closer, and one is worth less.
  StopClock quick(800ms);
  quick.saw(true, start);
  quick.saw(true, start + 3600s);
  CHECK(quick.next_look() == start + 3600s + 100ms);
  CHECK_FALSE(quick.is_over());
}

TEST_CASE("the kernel tells of children that stop and go on, and reaps none", "[stop]") {
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const UniqueFd signals = open_child_signals();
  REQUIRE(signals);
  const auto told = [&] {
    pollfd wait{signals.get(), POLLIN, 0};
    const bool is_told = ::poll(&wait, 1, 5000) == 1;
    drain_child_signals(signals.get());
    return is_told;
  };
  SpawnOptions options;
  options.path = "/bin/sh";
  options.argv = {"sh", "-c", "kill -STOP $$; exit 7"};
  Process process;
  REQUIRE_FALSE(spawn(options, process));
  REQUIRE(told());
  CHECK(stop_change(process.pid) == true);
  CHECK(stop_change(process.pid) == std::nullopt);
  CHECK_FALSE(has_ended(process.pid));
  send_signal(process, SIGCONT);
  // It may have ended before we looked: then it is not stopped any more at least.
  REQUIRE(told());
  CHECK(stop_change(process.pid).value_or(false) == false);
  pollfd wait{process.pidfd.get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 5000) == 1);
  CHECK(stop_change(process.pid).value_or(false) == false);
  CHECK(has_ended(process.pid));
  ExitStatus status;
  REQUIRE(try_reap(process, status));
  CHECK(status.value == 7);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace hvdrun
