// A program outside this project, built against the installed tree with one g++ line.
#include <filesystem>

#include <catch2/catch.hpp>

#include "tests/integration/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

TEST_CASE("an outside C++17 program builds and runs against the installed tree", "[install]") {
  const char* const sanitize = std::getenv("HVD_TEST_SANITIZE");  // NOLINT(concurrency-mt-unsafe)
  if (sanitize != nullptr && std::string(sanitize) != "none") {
    WARN("skipped: a sanitizer's library needs a program with the same sanitizer");
    return;
  }
  TempFolder folder;
  const std::string root = folder.path() + "/root";
  const RunResult install = run({.args = {"/usr/bin/meson", "install", "-C", build_path("."),
                                          "--no-rebuild", "--quiet", "--destdir", root},
                                 .limit = 120s});
  INFO(install.out << install.err);
  REQUIRE(install.exit_code == 0);
  std::string pc;
  std::string agent;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "hvd.pc") pc = entry.path().parent_path();
    if (entry.path().filename() == "hvd-agent") agent = entry.path();
  }
  REQUIRE_FALSE(pc.empty());
  REQUIRE_FALSE(agent.empty());
  const std::string library = fs::path(pc).parent_path();
  folder.file("program.cpp", R"(
#include <hvd/hvd.h>
#include <cstdio>
int main() {
  hvd::init();
  double sum = hvd::rank();
  hvd::allreduce(&sum, &sum, 1, hvd::ReduceOp::sum);
  std::printf("%d/%d %g\n", hvd::rank(), hvd::size(), sum);
  hvd::shutdown();
}
)");
  const RunResult build =
      run({.args = {"sh", "-c",
                    "g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror program.cpp "
                    "$(pkg-config --cflags --libs hvd) -o program"},
           .env = {{"PKG_CONFIG_PATH", pc}, {"PKG_CONFIG_SYSROOT_DIR", root}},
           .cwd = folder.path(),
           .limit = 120s});
  INFO(build.out << build.err);
  REQUIRE(build.exit_code == 0);
  const std::string hvdrun_program =
      fs::path(agent).parent_path().parent_path().parent_path() / "bin/hvdrun";
  const RunResult job = run({.args = {hvdrun_program, "-np", "3", "./program"},
                             .env = {{"LD_LIBRARY_PATH", library}},
                             .cwd = folder.path()});
  INFO(job.out << job.err);
  CHECK(job.exit_code == 0);
  CHECK(job.out.find("[2]<stdout>:2/3 3\n") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
