// The lab models against an independent reference: Python's PyTorch with the same weights.
#include <cstdio>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/turns.h"

namespace hvdrun::test {

TEST_CASE("models give the outputs, losses and gradients of Python's", "[train][models]") {
  if (!takes_turn(3)) return;
  if (run({.args = {"/usr/bin/python3", "-c", "import torch"}}).exit_code != 0) {
    WARN("skipped: no /usr/bin/python3 with torch (Debian's python3-torch)");
    return;
  }
  const TempFolder folder;
  const RunResult ours =
      run({.args = {build_path("tests/integration/programs/forward_values"), folder.path()}});
  INFO(ours.err);
  REQUIRE(ours.exit_code == 0);
  const RunResult theirs =
      run({.args = {"/usr/bin/python3", source_path("tests/integration/programs/forward_values.py"),
                    folder.path()}});
  std::printf("%s", theirs.out.c_str());
  INFO(theirs.out << theirs.err);
  CHECK(theirs.exit_code == 0);
}

}  // namespace hvdrun::test
