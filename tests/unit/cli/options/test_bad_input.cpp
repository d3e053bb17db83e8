// Bad input of every shape that users have been seen to give: at most two lines, which name the
// item.
#include <algorithm>

#include "cli/plan/launch_plan.h"
#include "tests/catch.h"
#include "tests/unit/cli/text_file.h"

namespace hvdrun {
namespace {

using BadWords = std::vector<std::string>;

// The message that hvdrun would print; empty: it was accepted.
std::string message_for(const BadWords& args, const Environment& env = {}) {
  Surroundings surroundings;
  surroundings.cwd = "/tmp";
  surroundings.hostname = "node7";
  surroundings.count_slots = [] { return 4U; };
  try {
    make_plan(parse_options(args, env), surroundings);
  } catch (const UsageError& e) {
    return e.what();
  }
  return {};
}

void check_message(const std::string& text, const std::string& part) {
  INFO(text);
  REQUIRE_FALSE(text.empty());
  CHECK(text.find(part) != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 1);
  CHECK(text.back() != '\n');
  CHECK(std::all_of(text.begin(), text.end(),
                    [](char c) { return c == '\n' || static_cast<unsigned char>(c) >= 0x20; }));
}

TEST_CASE("bad numbers of ranks", "[bad input]") {
  const auto [value, part] = GENERATE(table<std::string, std::string>({
      {"0", "-np '0': a whole number from 1"},
      {"-1", "-np '-1'"},
      {"+2", "-np '+2'"},
      {" 2", "-np ' 2'"},
      {"2 ", "-np '2 '"},
      {"2.5", "-np '2.5'"},
      {"1e3", "-np '1e3'"},
      {"0x10", "-np '0x10'"},
      {"four", "-np 'four'"},
      {"", "-np ''"},
      {"1048577", "-np '1048577'"},
      {"99999999999999999999999", "-np '999"},
      {"4\n5", "-np '4\\n5'"},
      {"\x1b[31m", "-np '\\x1b[31m'"},
      {std::string(5000, '9'), "999..."},
  }));
  check_message(message_for({"-np", value, "true"}), part);
}

TEST_CASE("bad lists of hosts", "[bad input]") {
  const auto [value, part] = GENERATE(table<std::string, std::string>({
      {"", "an empty item"},
      {",", "an empty item"},
      {"localhost:2,", "an empty item"},
      {"localhost:2,,node7:1", "an empty item"},
      {":2", "no host name in ':2'"},
      {"localhost:", "'localhost:'"},
      {"localhost:x", "'localhost:x'"},
      {"localhost:-1", "'localhost:-1'"},
      {"localhost:1.5", "'localhost:1.5'"},
      {"localhost:2:3:4", "too many ':' in 'localhost:2:3:4'"},
      {"localhost:server2_ip:2", "'server2_ip' is no port"},
      {"localhost:1 node7:1", "a blank in 'localhost:1 node7:1'; separate hosts by commas"},
      {"localhost:1, node7:1", "a blank in ' node7:1'"},
      {"localhost:1;node7:1", "'1;node7' is no port"},
      {"localhost:1\nnode7:1", "'localhost:1\\nnode7:1'"},
      {"[::1:2", "no ']' in '[::1:2'"},
      {"::1", "an IPv6 address without brackets in '::1'"},
      {"fe80::1%eth0:2", "an IPv6 address without brackets"},
      {"@localhost:2", "no user name before the '@'"},
      {"`id`@localhost:2", "a character that user names do not have"},
      {"localhost\x1b[0m:2", "'localhost\\x1b[0m:2'"},
      {"http://localhost:2", "'//localhost' is no port"},
      {"4", "'4' is a number and no host"},
      {"h\xc3\xb6st:2", "a character that no host name has"},
      {"-oProxyCommand=x", "must not begin with '-'"},
      {"node[1-]:2", "not a range"},
      {"node[2-1]:2", "not a range"},
      {"node[1-2:2", "not a range"},
      {"localhost:0", "has no slots"},
      {"localhost:16385", "more than 16384 slots"},
      {std::string(5000, 'a') + ":1", "a host name of 5000 characters"},
  }));
  const std::string option = GENERATE("-H", "--hosts");
  const std::string text = message_for({option, value, "true"});
  check_message(text, part);
  CHECK(text.compare(0, option.size(), option) == 0);
  check_message(message_for({"true"}, {"HVDRUN_HOSTS=" + (value.empty() ? "," : value)}),
                value.empty() ? "an empty item" : part);
}

TEST_CASE("ranks and hosts that do not fit together", "[bad input]") {
  const auto [args, part] = GENERATE(table<BadWords, std::string>({
      {{"-np", "3", "-H", "localhost:2", "true"}, "-np 3 asks for more ranks than the 2 slots"},
      {{"-np", "5", "-H", "localhost:2,node7:2", "true"}, "4 slots of -H 'localhost:2,node7:2'"},
      {{"-H", "localhost:1", "node7:1", "true"}, "-H localhost:1,node7:1"},
      {{"-np", "2", "-H", "localhost:1", "gpu2:1", "./train"}, "is 'gpu2:1' a host?"},
      {{"-H", "localhost:1", "me@[fd00::1]:22:1", "true"}, "is 'me@[fd00::1]:22:1' a host?"},
      {{"-np", "3", "-H", "me@gpu1:22:2", "true"}, "give it more, as in me@gpu1:22:3,"},
      {{"-H", "localhost:2", "--hostfile", "f", "true"}, "-H or by --hostfile"},
      {{"-hostfile", "f", "-H", "localhost:2", "true"}, "-hostfile or by -H"},
      {{"--hostfile", "/no/such", "true"}, "'/no/such': No such file"},
      {{"--hostfile", "/", "true"}, "'/': is not a file"},
      {{"--hostfile", "", "true"}, "--hostfile '': is empty"},
      {{"--hostfile", "/dev/null", "true"}, "is not a file"},
      {{"-np", "2", "--stdin", "2", "true"}, "--stdin 2: no such rank"},
  }));
  CAPTURE(args);
  check_message(message_for(args), part);
}

TEST_CASE("bad files", "[bad input]") {
  const auto [option, text, part] = GENERATE(table<std::string, std::string, std::string>({
      {"--hostfile", "gpu1 slots=two\n", ":1: 'slots=two'"},
      {"--hostfile", "# c\n\ngpu1 slots\n", ":3: 'slots' is not understood"},
      {"--hostfile", "gpu1 gpu2\n", ":1: 'gpu2' is not understood"},
      {"--hostfile", "gpu1:4:5:6\n", ":1: too many ':'"},
      {"--hostfile", "\xff\xfeg\n", ":1: this file is UTF-16"},
      {"--hostfile", std::string("\0\0\0", 3), ":1: a character"},
      {"--hostfile", "\n\n", "no host in this file"},
      {"--env-file", "A\n", ":1: 'A': write NAME=VALUE"},
      {"--env-file", "A='\n", ":1: A: the closing quote"},
      {"--config-file", "params:\n  fusion: 1\n", ":2: unknown key 'fusion'"},
      {"--config-file", "params:\n  fusion_threshold_mb: '7 MB'\n",
       ":2: fusion_threshold_mb '7 MB'"},
      {"--config-file", "a: [1\n", "not YAML"},
      {"--config-file", "controller: jsrun\n", ":1: controller: only gloo"},
  }));
  CAPTURE(text);
  const TextFile file(text);
  const std::string message = message_for({option, file.path(), "true"});
  check_message(message, part);
  CHECK(message.find(file.path()) == 0);
}

TEST_CASE("misspelled and missing words", "[bad input]") {
  const auto [args, part] = GENERATE(table<BadWords, std::string>({
      {BadWords(), "no program to run"},
      {{"-np", "4"}, "no program to run"},
      {{"-np"}, "option '-np' needs a value: -np N"},
      {{"-np", "2", "-H"}, "option '-H' needs a value"},
      {{"--hsots", "a:1", "true"}, "did you mean --hosts?"},
      {{"--num-procs", "4", "true"}, "did you mean --num-proc?"},
      {{"--output_filename=x", "true"}, "did you mean --output-filename?"},
      {{"--no-such-thing", "true"}, "unknown option '--no-such-thing'; hvdrun --help all"},
      {{"-\n", "true"}, "unknown option '-\\n'"},
      {{"---", "true"}, "unknown option '---'"},
      {{"--=3", "true"}, "unknown option '--=3'"},
      {{"--verbose=1", "true"}, "option '--verbose=1' takes no value"},
      {{"--start-timeout", "soon", "true"}, "--start-timeout 'soon': seconds"},
      {{"--start-timeout", "-3", "true"}, "--start-timeout '-3'"},
      {{"--start-timeout", "1e300", "true"}, "--start-timeout '1e300'"},
      {{"--timeout", "10 s", "true"}, "--timeout '10 s'"},
      {{"--grace", "KILL,TERM", "true"}, "the last step must be KILL"},
      {{"--grace", "TRM,5s,KILL", "true"}, "--grace 'TRM,5s,KILL'"},
      {{"-x", "=1", "true"}, "-x '=1': no name"},
      {{"-x", "NCCL_*=1", "true"}, "-x 'NCCL_*=1': a pattern"},
      {{"--mpi", "true"}, "without MPI"},
      {{"--min-np", "0", "true"}, "--min-np '0'"},
      {{"--min-np", "few", "true"}, "--min-np 'few'"},
      {{"--elastic-timeout", "0", "true"}, "--elastic-timeout '0'"},
      {{"--max-np", "0", "true"}, "--max-np '0'"},
      {{"--slots-per-host", "0", "true"}, "--slots-per-host '0'"},
      {{"--reset-limit", "-1", "true"}, "--reset-limit '-1'"},
      {{"--max-restarts", "-1", "true"}, "--max-restarts '-1'"},
      {{"--max-restarts", "often", "true"}, "--max-restarts 'often'"},
      {{"--cycle-time-ms", "fast", "true"}, "--cycle-time-ms 'fast': a number"},
      {{"./a", ":", "-np", "2", "./b"}, "how many ranks has the first program?"},
      {{"-np", "1", "./a", ":", "-np", "0", "./b"}, "-np '0'"},
      {{"-np", "1", "./a", ":", "-np", "2"}, "a program is needed behind ': -np 2'"},
      {{"-np", "1", "./a", ":", "-np", "2", "-x", "A", "./b"}, "behind ': -np 2'; other options"},
      {{"-np", "1", ":", "-np", "2", "./b"}, "before the ':'"},
      {{"-np", "9", "./a", ":", "-np", "1048575", "./b"}, "1048584 ranks together"},
      {{"--cache-capacity=-1", "true"}, "--cache-capacity '-1'"},
      {{"--network-interfaces", "eth0,,ib0", "true"}, "--network-interfaces 'eth0,,ib0': an item"},
      {{"--advertise", "10.0.0.1,gpu1", "true"}, "--advertise '10.0.0.1,gpu1': addresses are"},
      {{"--advertise", "10.0.0.1:80", "true"}, "--advertise '10.0.0.1:80'"},
      {{"--port-range", "6000", "true"}, "--port-range '6000': write the first"},
      {{"--port-range", "6001-6000", "true"}, "--port-range '6001-6000'"},
      {{"--port-range", "0-10", "true"}, "--port-range '0-10'"},
      {{"--port-range", "6000-70000", "true"}, "--port-range '6000-70000'"},
  }));
  CAPTURE(args);
  check_message(message_for(args), part);
}

TEST_CASE("what looks odd and is right is taken", "[bad input]") {
  for (const BadWords& args : std::vector<BadWords>{
           {"-np", "2", "-H", "localhost:1,localhost:1", "true"},
           {"-np", "2", "-H", "node7", "-oversubscribe", "true"},
           {"-H", "localhost:0,node7:2", "true"},
           {"-np", "2", "./a:3"},
           {"-np", "02", "true"},
           {"-np", "1", "--", "-x"},
       }) {
    CAPTURE(args);
    CHECK(message_for(args) == "");
  }
}

}  // namespace
}  // namespace hvdrun
