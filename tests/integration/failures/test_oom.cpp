// A rank that the kernel ends for want of memory. The kernel counts such ends for the whole machine
// only, so nothing else may be killed meanwhile.
#include <string>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

TEST_CASE("the OOM killer is named", "[failure]") {
  // A memory cgroup of its own, where one can be made.
  const std::string folder = "/sys/fs/cgroup/memory/hvdrun-test-" + std::to_string(getpid());
  if (run({.args = {"mkdir", folder}}).exit_code != 0) {
    WARN("skipped: no memory cgroup can be made at " << folder);
    return;
  }
  const RunResult result = run(
      {.args = {"sh", "-c",
                "echo 400000000 > " + folder + "/memory.limit_in_bytes && echo $$ > " + folder +
                    "/cgroup.procs && exec " + build_path("hvdrun") +
                    " -np 2 sh -c '[ $HVD_RANK = 1 ] && exec tail /dev/zero; exec sleep 100'"}});
  CHECK(run({.args = {"rmdir", folder}}).exit_code == 0);
  INFO(result.err);
  CHECK(result.exit_code == 137);
  CHECK(result.err.find("rank 1 on localhost") != std::string::npos);
  CHECK(result.err.find("OOM killer") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
