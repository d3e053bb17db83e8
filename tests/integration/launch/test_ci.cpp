// docs/ci.md, as it is written: not root, no terminal, no HOME, no network but loopback, a
// read-only root, a small /dev/shm, one core.
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

// `program` as nobody, on one core, in namespaces of its own: loopback only, everything read-only,
// 64 MB of /dev/shm, an environment of PATH alone.
RunResult run_bare(const std::string& program) {
  const std::string inside =
      "ip link set lo up && mount --make-rprivate / && mount -t tmpfs -o size=64m tmpfs /dev/shm "
      "&& "
      "mount -o remount,ro,bind / && for f in $(cut -d' ' -f2 /proc/mounts); do "
      "case $f in /dev/shm|/proc*|/sys*|/dev*) ;; *) mount -o remount,ro,bind \"$f\" 2>/dev/null;; "
      "esac; "
      "done; exec setsid taskset -c 0 env -i PATH=/usr/bin:/bin setpriv --reuid 65534 --regid "
      "65534 "
      "--clear-groups --no-new-privs -- sh -c '" +
      program + "'";
  return run(
      {.args = {"unshare", "--net", "--mount", "--fork", "sh", "-c", inside}, .limit = 120s});
}

TEST_CASE("a job runs under the conditions of a bare CI container", "[ci]") {
  if (geteuid() != 0 || run({.args = {"unshare", "--net", "--mount", "true"}}).exit_code != 0) {
    WARN("skipped: namespaces need root here");
    return;
  }
  if (run_bare("test -x " + build_path("hvdrun")).exit_code != 0) {
    WARN("skipped: the build folder cannot be read by another user");
    return;
  }
  const RunResult where = run_bare("id -u; nproc; touch x; ls /root; echo HOME=$HOME");
  INFO(where.out << where.err);
  REQUIRE(where.out.find("65534\n1\nHOME=\n") == 0);  // the conditions are what they claim
  const RunResult job = run_bare(build_path("hvdrun") + " -np 4 -H localhost:4 --timeout 60 " +
                                 worker_probe() + " collectives && echo fine");
  INFO(job.out << job.err);
  CHECK(job.exit_code == 0);
  CHECK(job.err.empty());
  CHECK(job.out.find("fine") != std::string::npos);
  const RunResult late =
      run_bare(build_path("hvdrun") + " -np 2 -H localhost:2 --timeout 1 sleep 100");
  CHECK(late.exit_code == 124);
  const RunResult failed = run_bare(build_path("hvdrun") + " -np 2 false");
  CHECK(failed.exit_code == 1);
}

TEST_CASE("the page's commands are those that are tested", "[ci]") {
  std::ifstream page(source_path("docs/ci.md"));
  std::ostringstream text;
  text << page.rdbuf();
  CHECK(text.str().find("hvdrun -np 4 -H localhost:4 --timeout 300 ./train") != std::string::npos);
  CHECK(text.str().find("scripts/run --no-torch") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
