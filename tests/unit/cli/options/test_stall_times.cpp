#include "cli/options/options.h"
#include "cli/options/stall_times.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the stall check has Horovod's times, from its variables", "[stall]") {
  StallTimes times = stall_times({"OTHER=1"});
  CHECK(times.warning == 60s);
  CHECK(times.shutdown == 0s);
  times = stall_times(
      {"HOROVOD_STALL_CHECK_TIME_SECONDS=5", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=2147483647"});
  CHECK(times.warning == 5s);
  CHECK(times.shutdown == 2147483647s);
  // Never to warn, and to end the job all the same.
  times =
      stall_times({"HOROVOD_STALL_CHECK_TIME_SECONDS=0", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=9"});
  CHECK(times.warning == 0s);
  CHECK(times.shutdown == 9s);
  // Empty is unset.
  times = stall_times({"HOROVOD_STALL_CHECK_TIME_SECONDS=", "HOROVOD_STALL_CHECK_DISABLE="});
  CHECK(times.warning == 60s);
}

TEST_CASE("a stall check that is off has no times", "[stall]") {
  const Environment set{"HOROVOD_STALL_CHECK_TIME_SECONDS=5",
                        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=9"};
  for (const auto& [value, warning] : {std::pair("0", 5s), std::pair("1", 0s)}) {
    Environment env = set;
    env.push_back(std::string("HOROVOD_STALL_CHECK_DISABLE=") + value);
    CHECK(stall_times(env).warning == warning);
    CHECK((stall_times(env).shutdown == 0s) == (warning == 0s));
  }
}

TEST_CASE("a time that is none is bad usage, in one line", "[stall]") {
  for (const char* const name :
       {"HOROVOD_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        "HOROVOD_STALL_CHECK_DISABLE"}) {
    for (const char* const value :
         {"x", "-1", "1.5", "2147483648", " 1", "1s", "9999999999999999999999"}) {
      CAPTURE(name, value);
      try {
        stall_times({std::string(name) + "=" + value});
        FAIL("it was taken");
      } catch (const UsageError& e) {
        CHECK_THAT(e.what(), Catch::StartsWith(std::string(name) + " '" + value + "': a whole"));
        CHECK(std::string(e.what()).find('\n') == std::string::npos);
      }
    }
  }
  CHECK_THROWS_AS(stall_times({"HOROVOD_STALL_CHECK_DISABLE=2"}), UsageError);
}

}  // namespace
}  // namespace hvdrun
