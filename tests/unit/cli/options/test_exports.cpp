#include "cli/options/exports.h"
#include "cli/options/options.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("a file of variables is read with quotes and comments", "[exports]") {
  const auto variables = parse_env_file(
      "# all of them\n"
      "\n"
      "A=1\r\n"
      "  export B=two words   # said so\n"
      "C='single # ${no} \\n'\n"
      "D=\"double \\\"quoted\\\"\\n\"  # so\n"
      "E=\n"
      "F=a=b#c",
      "f");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"A", "1"}, {"B", "two words"}, {"C", "single # ${no} \\n"}, {"D", "double \"quoted\"\n"},
      {"E", ""},  {"F", "a=b#c"},
  };

  CHECK(variables == expected);
}

TEST_CASE("a bad file of variables gets file and line", "[exports]") {
  const auto [text, part] = GENERATE(table<std::string, std::string>({
      {"A=1\nB", "f:2: 'B': write NAME=VALUE"},
      {"=1", "f:1: '=1'"},
      {"A B=1", "f:1: 'A B=1'"},
      {"A='x", "f:1: A: the closing quote"},
      {"A=\"x\" y", "f:1: A: nothing can stand behind"},
  }));
  CAPTURE(text);
  CHECK_THROWS_WITH(parse_env_file(text, "f"), Catch::Contains(part));
}

TEST_CASE("-x takes patterns of variables that are there", "[exports]") {
  Environment env = {"NCCL_DEBUG=INFO", "HOME=/"};
  std::vector<std::string> warnings;
  const Environment own = {"NCCL_DEBUG=INFO", "HOME=/", "ROLE_NAME=mine", "PMI_RANK=3"};
  apply_exports({"NCCL_*", "HOME", "A=*", "PMI_*"}, own, env, warnings);
  CHECK(warnings.empty());
  CHECK(std::string(find_variable(env, "A")) == "*");
  CHECK(env.size() == 3);
  apply_exports({"ROLE_NAME"}, own, env, warnings);
  CHECK(warnings.empty());
  CHECK(std::string(find_variable(env, "ROLE_NAME")) == "mine");
  apply_exports({"UCX_*"}, own, env, warnings);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("UCX_*") != std::string::npos);
  CHECK_THROWS_AS(apply_exports({"NCCL_*=1"}, own, env, warnings), UsageError);
}

}  // namespace
}  // namespace hvdrun
