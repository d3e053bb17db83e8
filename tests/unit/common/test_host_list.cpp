#include <catch2/catch.hpp>

#include "common/host_list.h"

namespace hvdrun {
namespace {

TEST_CASE("a host list is read in order, duplicates are merged into the first", "[hosts]") {
  std::string problem;
  const auto hosts = parse_host_list("gpu-1.lab:2,b_2,gpu-1.lab:3,c:0", problem);
  REQUIRE(hosts);
  REQUIRE(hosts->size() == 3);
  CHECK((*hosts)[0].name == "gpu-1.lab");
  CHECK((*hosts)[0].slots == 5);
  CHECK((*hosts)[1].name == "b_2");
  CHECK((*hosts)[1].slots == 1);
  CHECK((*hosts)[2].slots == 0);
  CHECK(problem.empty());
}

TEST_CASE("bad host lists get one line that names the item", "[hosts]") {
  const auto [text, part] = GENERATE(table<std::string, std::string>({
      {"", "empty item"},
      {"a:2,", "empty item"},
      {",a:2", "empty item"},
      {":4", "no host name"},
      {"a:x", "'a:x'"},
      {"a:", "'a:'"},
      {"a:-1", "'a:-1'"},
      {"a:2 b:2", "'a:2 b:2'"},
      {"user@h:2", "'user@h:2'"},
      {"[::1]:2", "'[::1]:2'"},
      {"-oProxyCommand", "must not begin"},
      {"a:99999999999999999999", "more than 16384 slots"},
      {"a:16384,a:1", "more than 16384 slots"},
      {std::string(300, 'a'), "300 characters"},
  }));
  CAPTURE(text);
  std::string problem;
  CHECK_FALSE(parse_host_list(text, problem));
  CHECK(problem.find(part) != std::string::npos);
  CHECK(problem.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace hvdrun
