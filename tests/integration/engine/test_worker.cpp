#include <chrono>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

TEST_CASE("collectives between real processes", "[worker]") {
  const auto np = GENERATE("1", "2", "3", "4", "8");
  CAPTURE(np);
  const RunResult result = hvdrun({"-np", np, worker_probe(), "collectives"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("store and fence, within a host and between hosts", "[worker]") {
  // An agent for each host, all on this machine.
  const std::string hosts = GENERATE("a:3", "a:1,b:1", "a:2,b:3,c:1");
  const std::string control = GENERATE("unix", "tcp");
  CAPTURE(hosts, control);
  const RunResult result = hvdrun({"--transport", "local", "--control", control, "-H", hosts,
                                   build_path("tests/integration/programs/line_probe")});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.time < std::chrono::seconds(5));
}

TEST_CASE("init after shutdown", "[worker]") {
  const RunResult result = hvdrun({"-np", "3", worker_probe(), "again"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("many short jobs: every rank that leaves last has still finished", "[worker]") {
  if (!takes_turn(2)) return;
  const int jobs = is_sanitized() ? 4 : static_cast<int>(soak_count(100));
  for (int i = 0; i < jobs; ++i) {
    const RunResult result = hvdrun({"-np", "4", worker_probe(), "collectives"});
    CAPTURE(i);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
  }
}

TEST_CASE("collectives run between hosts", "[worker]") {
  for (const char* const hosts : {"a:1,b:1", "a:2,b:2", "a:3,b:1,c:2"}) {
    const RunResult result =
        hvdrun({"--transport", "local", "-H", hosts, worker_probe(), "collectives"});
    CAPTURE(hosts);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("without a launcher a program is rank 0 of 1", "[worker]") {
  RunResult result = run({.args = {"env", "-u", "WORLD_SIZE", worker_probe(), "collectives"}});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  result = run({.args = {worker_probe(), "collectives"}, .env = {{"OMPI_COMM_WORLD_SIZE", "4"}}});
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("OMPI_COMM_WORLD_SIZE=4") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
