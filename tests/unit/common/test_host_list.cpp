#include <catch2/catch.hpp>

#include "common/host_list.h"

namespace hvdrun {
namespace {

TEST_CASE("a host list is read in order, duplicates are merged into the first", "[hosts]") {
  HostListProblem problem;
  const auto hosts = parse_host_list("gpu-1.lab:2,b_2,gpu-1.lab:3,c:0", problem);
  REQUIRE(hosts);
  REQUIRE(hosts->size() == 3);
  CHECK((*hosts)[0].name == "gpu-1.lab");
  CHECK((*hosts)[0].slots == 5);
  CHECK((*hosts)[1].name == "b_2");
  CHECK((*hosts)[1].slots == 1);
  CHECK((*hosts)[2].slots == 0);
  CHECK(problem.text.empty());
}

std::string names_of(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) text += host.name + ":" + std::to_string(host.slots) + " ";
  return text;
}

TEST_CASE("a range stands for its hosts", "[hosts]") {
  const auto [text, expected] = GENERATE(table<std::string, std::string>({
      {"node[1-3]:4", "node1:4 node2:4 node3:4 "},
      {"node[08-11]:2,x", "node08:2 node09:2 node10:2 node11:2 x:1 "},
      {"n[1,3,5-6].lab:2", "n1.lab:2 n3.lab:2 n5.lab:2 n6.lab:2 "},
      {"r[1-2]n[01-02]:1", "r1n01:1 r1n02:1 r2n01:1 r2n02:1 "},
      {"node[7]:8", "node7:8 "},
      {"node[1-2]:1,node2:3", "node1:1 node2:4 "},
  }));
  CAPTURE(text);
  HostListProblem problem;
  const auto hosts = parse_host_list(text, problem);
  INFO(problem.text);
  REQUIRE(hosts);
  CHECK(names_of(*hosts) == expected);
}

TEST_CASE("a hostfile is Horovod's, Open MPI's or MPICH's", "[hosts]") {
  HostListProblem problem;
  const auto hosts = parse_hostfile(
      "# the lab\n"
      "\n"
      "gpu1 slots=4\r\n"
      "  gpu2   slots = 2 max_slots=8   # two\n"
      "gpu3:6\n"
      "gpu4\n"
      "gpu4\n"
      "node[1-2] slots=3 max-slots=3\n"
      "node[3-4]:5",
      problem);
  INFO(problem.text);
  REQUIRE(hosts);
  CHECK(names_of(*hosts) == "gpu1:4 gpu2:2 gpu3:6 gpu4:2 node1:3 node2:3 node3:5 node4:5 ");
  CHECK(parse_hostfile("", problem)->empty());
  CHECK(parse_hostfile("\n# nothing\n", problem)->empty());
}

TEST_CASE("a bad hostfile gets one line that names line and item", "[hosts]") {
  const auto [text, line, part] = GENERATE(table<std::string, std::size_t, std::string>({
      {"a slots=4\nb slots=x\n", 2, "'slots=x'"},
      {"a slots=\n", 1, "'slots='"},
      {"a 4\n", 1, "'4' is not understood"},
      {"a slots=4 color=red", 1, "'color=red'"},
      {"a:4 slots=4", 1, "given twice"},
      {"a slots=4 max_slots=2", 1, "max_slots"},
      {"\n\na:x", 3, "'a:x'"},
      {"slots=4", 1, "'slots=4'"},
      {"me@a slots=4", 1, "no user name"},
      {"a slots=99999", 1, "more than 16384 slots"},
      {"a slots=16384\na slots=1", 2, "on host 'a'"},
      {"node[3-1] slots=4", 1, "not a range"},
  }));
  CAPTURE(text);
  HostListProblem problem;
  CHECK_FALSE(parse_hostfile(text, problem));
  INFO(problem.text);
  CHECK(problem.line == line);
  CHECK(problem.text.find(part) != std::string::npos);
  CHECK(problem.text.find('\n') == std::string::npos);
}

TEST_CASE("the place of the bad item is told", "[hosts]") {
  HostListProblem problem;
  CHECK_FALSE(parse_host_list("node[1,2]:3,b:x,c:1", problem));
  CHECK(problem.at == 12);
  CHECK(problem.size == 3);
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
      {"a:2 b:2", "a blank in 'a:2 b:2'"},
      {"user@h:2", "no user name can stand in 'user@h:2'"},
      {"[::1]:2", "'[::1]:2'"},
      {"-oProxyCommand", "must not begin"},
      {"a:2,b:2 ", "a blank in 'b:2 '"},
      {"localhost:gpu2:2", "more than one ':'"},
      {"node[1-", "not a range"},
      {"node[]:1", "not a range"},
      {"node[a-b]:1", "not a range"},
      {"node[1-9999999]:1", "not a range"},
      {"node[5-1]", "not a range"},
      {"n[1-1000]x[1-1000]", "more than 131072 hosts"},
      {"a:99999999999999999999", "more than 16384 slots"},
      {"a:16384,a:1", "more than 16384 slots"},
      {std::string(300, 'a'), "300 characters"},
  }));
  CAPTURE(text);
  HostListProblem problem;
  CHECK_FALSE(parse_host_list(text, problem));
  CHECK(problem.text.find(part) != std::string::npos);
  CHECK(problem.text.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace hvdrun
