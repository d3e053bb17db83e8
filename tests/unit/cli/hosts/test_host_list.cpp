#include "cli/hosts/host_list.h"
#include "tests/catch.h"

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

std::string names_of(const std::vector<HostEntry>& hosts) {
  std::string text;
  for (const HostEntry& host : hosts)
    text += spell_host(host.name, host.login) + ":" + std::to_string(host.slots) + " ";
  return text;
}

TEST_CASE("user, port and IPv6 address of a host are read", "[hosts]") {
  const auto [text, expected] = GENERATE(table<std::string, std::string>({
      {"gpu1:4", "gpu1:4 "},
      {"me@gpu1", "me@gpu1:1 "},
      {"me@gpu1:4", "me@gpu1:4 "},
      {"gpu1:2222:4", "gpu1:2222:4 "},
      {"m.e-1_x@gpu1:22:4", "m.e-1_x@gpu1:22:4 "},
      {"me@lab.org@gpu1:4", "me@lab.org@gpu1:4 "},
      {"[fd00::1]", "[fd00::1]:1 "},
      {"[fd00::1]:4", "[fd00::1]:4 "},
      {"[fd00::1]:2222:4", "[fd00::1]:2222:4 "},
      {"me@[FD00:0:0::0001]:2222:4", "me@[fd00::1]:2222:4 "},
      {"[fe80::1%eth0.5]:2", "[fe80::1%eth0.5]:2 "},
      {"me@node[1-2]:65535:4", "me@node1:65535:4 me@node2:65535:4 "},
      {"10.0.0.7:1:1", "10.0.0.7:1:1 "},
      // The host is name, user and port.
      {"a:1,me@a:1,a:22:1,A:1,me@a:2", "a:2 me@a:3 a:22:1 "},
      {"[::1]:1,[0:0::1]:1", "[::1]:2 "},
  }));
  CAPTURE(text);
  HostListProblem problem;
  const auto hosts = parse_host_list(text, problem);
  INFO(problem.text);
  REQUIRE(hosts);
  CHECK(names_of(*hosts) == expected);
}

TEST_CASE("how often a host stands in a list is counted", "[hosts]") {
  HostListProblem problem;
  const auto hosts = parse_host_list("a:1,b:1,a:1,a:1", problem);
  REQUIRE(hosts);
  CHECK((*hosts)[0].mentions == 3);
  CHECK((*hosts)[1].mentions == 1);
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
  const auto windows = parse_hostfile(
      "\xef\xbb\xbf# hosts\r\ngpu1 slots=4\r\n\r\nme@gpu2:2222:3\r\nme@[fd00::1] slots=2\r\n",
      problem);
  INFO(problem.text);
  REQUIRE(windows);
  CHECK(names_of(*windows) == "gpu1:4 me@gpu2:2222:3 me@[fd00::1]:2 ");
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
      {"b\n@a slots=4", 2, "no user name before the '@' in '@a'"},
      {"a:22:4 slots=4", 1, "given twice; with a port it is host:port:slots"},
      {"a slots=-1", 1, "'slots=-1': a number"},
      {"a\n8\n", 2, "'8' is a number and no host"},
      {std::string("\xff\xfe"
                   "a\0",
                   4),
       1, "UTF-16"},
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
      {"@h:2", "no user name before the '@' in '@h:2'"},
      {"me@", "no host name in 'me@'"},
      {"me@:2", "no host name in 'me@:2'"},
      {"-lroot@h", "a user name must not begin with '-'"},
      {"a b@h", "a blank in 'a b@h'"},
      {"$(id)@h", "a character that user names do not have in '$(id)@h'"},
      {"DOM\\me@h", "belongs into ~/.ssh/config"},
      {std::string(256, 'u') + "@h", "a user name of 256 characters"},
      {"$(id):2", "a character that no host name has in '$(id):2'"},
      {"h;id", "a character"},
      {"h\x1b[31m:2", "'h\\x1b[31m:2'"},
      {std::string("h\0:2", 4), "'h\\x00:2'"},
      {"me@-oProxyCommand=id", "must not begin with '-'"},
      {"::1", "an IPv6 address without brackets in '::1'; write an IPv6 address as in [fd00::1]:4"},
      {"fe80::1%eth0:2", "without brackets"},
      {"2001:db8:0:0:1:2:3:4", "without brackets"},
      {"[::1", "no ']' in '[::1'"},
      {"[::1%]:2", "is no IPv6 address"},
      {"[::1%$(id)]:2", "is no IPv6 address"},
      {"[::1%-]:2,[::g]:2", "is no IPv6 address in '[::g]:2'"},
      {"[::1]2", "something between ']' and ':'"},
      {"[10.0.0.1]:2", "not a range of numbers"},
      {"h:0:2", "'0' is no port in 'h:0:2'; write host:slots or host:port:slots"},
      {"h:65536:2", "'65536' is no port"},
      {"h:-1:2", "'-1' is no port"},
      {"h::2", "without brackets"},
      {"h:22:", "the number of slots is missing"},
      {"h:22:x", "the number of slots is missing or not a number in 'h:22:x'"},
      {"h:22:4:1", "too many ':' in 'h:22:4:1'"},
      {"8", "'8' is a number and no host"},
      {"h:22222", "; a port stands before them: host:port:slots"},
      {"-oProxyCommand", "must not begin"},
      {"a:2,b:2 ", "a blank in 'b:2 '"},
      {"localhost:gpu2:2", "'gpu2' is no port in 'localhost:gpu2:2'; write host:slots"},
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
