// A program outside this project, built against the installed tree with one g++ line.
#include "tests/catch.h"
#include "tests/integration/helpers/installed_tree.h"

namespace hvdrun::test {
namespace {

TEST_CASE("an outside C++17 program builds and runs against the installed tree", "[install]") {
  const char* const sanitize = std::getenv("HVD_TEST_SANITIZE");  // NOLINT(concurrency-mt-unsafe)
  if (sanitize != nullptr && std::string(sanitize) != "none") {
    WARN("skipped: a sanitizer's library needs a program with the same sanitizer");
    return;
  }
  const InstalledTree tree;
  const std::string program = tree.compile("program", R"(
#include <cstdlib>
#include <hvd/hvd.h>
#include <cstdio>
int main() {
  hvd::init();
  double sum = hvd::rank();
  hvd::allreduce(&sum, &sum, 1, hvd::ReduceOp::sum);
  std::printf("%d/%d %g\n", hvd::rank(), hvd::size(), sum);
  hvd::shutdown();
}
)",
                                           "hvd");
  const RunResult job = tree.hvdrun({"-np", "3", program});
  INFO(job.out << job.err);
  CHECK(job.exit_code == 0);
  CHECK(job.out.find("[2]<stdout>:2/3 3\n") != std::string::npos);
  // Its agent for other hosts is found from where hvdrun stands, wherever that is: ssh is called.
  const RunResult remote = tree.hvdrun({"-np", "1", "-H", "elsewhere:1", "--ssh", "false", "true"});
  CHECK(remote.exit_code == 69);
  CHECK(remote.err.find("host elsewhere (connecting)") != std::string::npos);
  // Code that breaks a job for a test to see is in no file of ours; a name that is there is found.
  CHECK(tree.files_with("HVD_FAULT") == std::vector<std::string>{});
  CHECK(!tree.files_with("HVD_INIT_TIMEOUT").empty());
}

}  // namespace
}  // namespace hvdrun::test
