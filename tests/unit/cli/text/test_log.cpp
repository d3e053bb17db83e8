#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "cli/text/log.h"
#include "common/base/unique_fd.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// Takes the place of stderr while `act` runs, and returns what came there.
template <class Act>
std::string on_stderr(Act act) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd saved(::dup(STDERR_FILENO));
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  act();
  ::dup2(saved.get(), STDERR_FILENO);
  char buffer[1024];
  const ssize_t size = ::read(read_end.get(), buffer, sizeof buffer);
  return {buffer, static_cast<std::size_t>(size < 0 ? 0 : size)};
}

TEST_CASE("while a job runs its log goes the viewer's way, and none past it", "[log]") {
  std::vector<std::string> said;
  CHECK(on_stderr([&] {
          HeldLog log;
          log_line(LogLevel::warn, "early");
          log.pass_to([&](const std::string& text) { said.push_back(text); });
          log_line(LogLevel::warn, "then");
          log_line(LogLevel::debug, "not verbose");
        }) == "");
  CHECK(said == std::vector<std::string>{"early", "then"});
}

TEST_CASE("a log that no viewer takes is written in the end", "[log]") {
  std::vector<std::string> said;
  CHECK(on_stderr([&] {
          HeldLog log;
          log.pass_to([&](const std::string& text) { said.push_back(text); });
          log.pass_to(nullptr);  // the viewer is gone
          log_line(LogLevel::warn, "late");
        }) == "hvdrun: late\n");
  CHECK(said.empty());
  CHECK(on_stderr([] {
          HeldLog log;
          log_line(LogLevel::warn, "early");
          log.pass_to(nullptr);
        }) == "hvdrun: early\n");
  CHECK(on_stderr([] { log_line(LogLevel::error, "no job"); }) == "hvdrun: no job\n");
}

}  // namespace
}  // namespace hvdrun
