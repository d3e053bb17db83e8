#include <cstdlib>
#include <fstream>
#include <signal.h>
#include <sstream>

#include "cli/options/exit_codes.h"
#include "cli/text/user_errors.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::string read_exit_codes_doc() {
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  std::ostringstream text;
  text << std::ifstream(std::string(source) + "/docs/exit-codes.md").rdbuf();
  return text.str();
}

TEST_CASE("the document has every exit code with its meaning, and no other", "[exit codes]") {
  const std::string doc = read_exit_codes_doc();
  std::size_t rows = 0;
  for (auto at = doc.find("\n| "); at != std::string::npos; at = doc.find("\n| ", at + 1)) ++rows;
  for (const ExitCodeRow& row : exit_code_table()) {
    CAPTURE(row.code);
    CHECK(doc.find("\n| " + std::to_string(row.code) + " | " + row.meaning + " |\n") !=
          std::string::npos);
  }
  // Besides them: the heading, a rank's own code, and signals.
  CHECK(rows == exit_code_table().size() + 3);
}

TEST_CASE("explain tells every code", "[exit codes]") {
  CHECK_THAT(explain_exit_code({"69"}), Catch::StartsWith("69: a host cannot be used"));
  CHECK_THAT(explain_exit_code({"82"}), Catch::Contains("--stall-check-shutdown-time-seconds"));
  CHECK_THAT(explain_exit_code({"137"}),
             Catch::Contains("SIGKILL") && Catch::Contains("out-of-memory"));
  CHECK_THAT(explain_exit_code({"3"}), Catch::Contains("the first rank that failed"));
  for (int code = 0; code < 256; ++code) {
    const std::string text = explain_exit_code({std::to_string(code)});
    CHECK(text.size() > 20);
    CHECK(text.back() == '\n');
  }
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{}, {"256"}, {"-1"}, {"x"}, {""}, {"1", "2"}})
    CHECK_THROWS_AS(explain_exit_code(bad), UsageError);
}

}  // namespace
}  // namespace hvdrun
