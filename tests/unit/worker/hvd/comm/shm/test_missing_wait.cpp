// The finder of races must itself be seen to find one.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

#include "tests/catch.h"

namespace {

struct Report {
  int status = 0;
  std::string text;
};

Report run_missing_wait(const std::string& argument) {
  const char* const program =
      std::getenv("HVD_TEST_MISSING_WAIT");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(program != nullptr);
  const std::string command =
      "TSAN_OPTIONS=exitcode=66 " + std::string(program) + " " + argument + " 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  REQUIRE(pipe != nullptr);
  Report report;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    report.text.append(buffer.data(), got);
  report.status = ::pclose(pipe);
  return report;
}

}  // namespace

TEST_CASE("the thread sanitizer reports a wait that is left out", "[comm]") {
  const Report whole = run_missing_wait("");
  CHECK(whole.status == 0);
  CHECK(whole.text.empty());
#ifdef __SANITIZE_THREAD__
  const Report planted = run_missing_wait("planted");
  CHECK(WIFEXITED(planted.status));
  CHECK(WEXITSTATUS(planted.status) == 66);
  CHECK(planted.text.find("data race") != std::string::npos);
  CHECK(planted.text.find("shm_communicator.cpp") != std::string::npos);
#else
  WARN("left out: the race that is planted shows under the thread sanitizer only");
#endif
}
