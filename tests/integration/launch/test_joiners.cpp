// Processes that may join as a rank, and others.
#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

// HVD_RANK is inherited and can be set, so it proves nothing: the agent knows whom it has started.
TEST_CASE("what a rank starts cannot join as another rank", "[joiners]") {
  // A child, one in a session of its own, and an orphan.
  const std::string start = GENERATE(
      as<std::string>(), "HVD_RANK=1 \"$0\"", "HVD_RANK=1 setsid -w \"$0\"",
      "(HVD_RANK=1 \"$0\" & echo $! >orphan); tail -s 0.01 -f --pid=$(cat orphan) /dev/null");
  CAPTURE(start);
  const TempFolder folder;
  // Rank 1 comes only when rank 0's child has had its try.
  const RunResult result =
      hvdrun({"-np", "2", "--chdir", folder.path(), "sh", "-c",
              "if [ $HVD_RANK = 0 ]; then " + start +
                  "; touch tried; else until [ -e tried ]; do sleep 0.01; done; fi; exec \"$0\"",
              build_path("tests/integration/programs/line_probe")});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("[0]<stdout>:hvd::Error: the line to this host's agent is lost: the agent "
                        "refused this worker: process ") != std::string::npos);
  CHECK(result.out.find("/line_probe) cannot join as rank 1, as its HVD_RANK says: rank 0 has "
                        "started it\n") != std::string::npos);
  for (const char* const end : {"[0]<stdout>:fine\n", "[1]<stdout>:fine\n"})
    CHECK(result.out.find(end) != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
