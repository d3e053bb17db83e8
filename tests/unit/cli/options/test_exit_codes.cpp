#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "cli/options/explain.h"
#include "cli/options/option_documents.h"
#include "cli/run/job_report.h"
#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// Every other list of the exit codes is compared with the table of common/base/exit_code.h. A code
// that is missing there, or one of nobody's, fails.
using Codes = std::map<int, std::string>;

Codes codes_in_code() {
  Codes codes;
  for (const exit_code::Row& row : exit_code::kTable) codes[row.number] = row.meaning;
  CHECK(codes.size() == std::size(exit_code::kTable));
  return codes;
}

std::string read_source(const std::string& name) {
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  std::ostringstream text;
  text << std::ifstream(std::string(source) + "/" + name).rdbuf();
  return text.str();
}

// The rows "| CODES | MEANING |" below the heading whose first cell is this; CODES has numbers with
// commas between, or words, which are left out.
Codes codes_in_table(const std::string& text, const std::string& heading) {
  Codes codes;
  const auto found = text.find("\n| " + heading + " | meaning |\n|---|---|\n");
  REQUIRE(found != std::string::npos);
  std::istringstream lines(text.substr(found + 1));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("| ")) {
    const auto bar = line.find(" | ");
    const std::string cell = line.substr(2, bar - 2);
    if (cell.find_first_not_of("0123456789, ") != std::string::npos) continue;
    std::istringstream numbers(cell);
    for (std::string number; std::getline(numbers, number, ',');)
      codes[std::stoi(number)] = line.substr(bar + 3, line.size() - bar - 5);
  }
  return codes;
}

std::set<int> numbers_of(const Codes& codes) {
  std::set<int> numbers;
  for (const auto& [number, meaning] : codes) numbers.insert(number);
  return numbers;
}

TEST_CASE("every list of exit codes is that of the table", "[exit codes]") {
  CHECK(codes_in_table(read_source("docs/exit-codes.md"), "code") == codes_in_code());
  CHECK(numbers_of(codes_in_table(read_source("README.md"), "exit code")) ==
        numbers_of(codes_in_code()));
  Codes in_man_page;
  std::string man = option_document("man");
  man.erase(std::remove(man.begin(), man.end(), '\\'), man.end());
  std::istringstream lines(man.substr(man.find("\n.SH EXIT STATUS\n") + 1));
  std::string line;
  std::getline(lines, line);
  for (std::string number; std::getline(lines, line) && !line.starts_with(".SH ");) {
    if (line != ".TP") continue;
    std::getline(lines, number);
    std::getline(lines, in_man_page[std::stoi(number)]);
  }
  CHECK(in_man_page == codes_in_code());
}

// With 84 a rank says the same as the table.
TEST_CASE("a rank may have every code of hvdrun's own but that of success", "[exit codes]") {
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    JobEnded verdict;
    verdict.cause = EndCause::rank_failed;
    verdict.kind = ExitKind::exited;
    verdict.value = static_cast<std::uint32_t>(code);
    const bool is_said = describe_failure(verdict, {}).size() > 1;
    CHECK(is_said == (code != 0 && code != 84 && codes_in_code().contains(code)));
    const std::string text = explain_exit_code({std::to_string(code)});
    CHECK((text.find("Or a rank itself exited with it") != std::string::npos) == is_said);
    if (codes_in_code().contains(code))
      CHECK(text.find(codes_in_code().at(code)) != std::string::npos);
  }
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
