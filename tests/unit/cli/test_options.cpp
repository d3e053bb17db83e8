#include <algorithm>
#include <signal.h>

#include <catch2/catch.hpp>

#include "cli/option_help.h"
#include "cli/options.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

TEST_CASE("every spelling of an option works", "[options]") {
  for (const Words& np : {Words{"-np", "4"}, Words{"--np", "4"}, Words{"--num-proc", "4"},
                          Words{"--num-proc=4"}, Words{"-np=4"}}) {
    for (const Words& hosts :
         {Words{"-H", "a:4"}, Words{"--hosts", "a:4"}, Words{"--hosts=a:4"}, Words{"-Ha:4"}}) {
      Words args = np;
      args.insert(args.end(), hosts.begin(), hosts.end());
      args.emplace_back("./train");
      CAPTURE(args);
      const Options options = parse_options(args);
      CHECK(options.np == 4U);
      CHECK(options.hosts == "a:4");
      CHECK(options.command == Words{"./train"});
    }
  }
}

TEST_CASE("the program's own options are never taken for ours", "[options]") {
  const Words program = {"python3", "train.py", "-np", "9", "--verbose", "-H", "x:1", "--", "-x"};
  Words args = {"-np", "2"};
  args.insert(args.end(), program.begin(), program.end());
  Options options = parse_options(args);
  CHECK(options.np == 2U);
  CHECK_FALSE(options.verbose);
  CHECK_FALSE(options.hosts);
  CHECK(options.exports.empty());
  CHECK(options.command == program);

  options = parse_options({"-np", "2", "--", "--verbose", "--help"});
  CHECK_FALSE(options.verbose);
  CHECK(options.command == Words{"--verbose", "--help"});
  options = parse_options({"-np", "2", "-", "x"});
  CHECK(options.command == Words{"-", "x"});
}

TEST_CASE("values are taken as they are", "[options]") {
  const Options options = parse_options({"-x", "A=b=c", "-xB", "-x", "EMPTY=", "-np", "1", "true"});
  CHECK(options.exports == Words{"A=b=c", "B", "EMPTY="});
}

TEST_CASE("of an option given twice the last one counts", "[options]") {
  const Options options = parse_options({"-np", "2", "--np", "3", "true"});
  CHECK(options.np == 3U);
}

TEST_CASE("switches and times", "[options]") {
  const Options options = parse_options({"--verbose", "--control", "tcp", "--start-timeout", "1.5",
                                         "--grace=0", "--lease", "20", "true"});
  CHECK(options.verbose);
  CHECK(options.control == ControlTransport::tcp);
  CHECK(options.start_timeout == 1500ms);
  CHECK(options.grace == 0ms);
  CHECK(options.lease == 20s);
  CHECK(parse_options({"-v"}).version);
  CHECK(parse_options({"--version"}).version);
  CHECK(parse_options({"-cb"}).check_build);
  CHECK(parse_options({"-h"}).help);
}

TEST_CASE("bad input gets one or two lines that name the item", "[options]") {
  const auto [args, part] = GENERATE(table<Words, std::string>({
      {Words(), "no program"},
      {{"-np", "2"}, "no program"},
      {{"-np", "2", "--"}, "no program"},
      {{"-np"}, "'-np' needs a value"},
      {{"-np", "--", "x"}, "'-np' needs a value"},
      {{"-np", "0", "x"}, "-np '0'"},
      {{"-np", "-1", "x"}, "-np '-1'"},
      {{"-np", "two", "x"}, "-np 'two'"},
      {{"-np", "4x", "x"}, "-np '4x'"},
      {{"-np", "99999999999", "x"}, "-np '99999999999'"},
      {{"-np=", "x"}, "-np ''"},
      {{"--grace", "TERM", "x"}, "the last step must be KILL"},
      {{"--grace", "5s,KILL", "x"}, "--grace '5s,KILL'"},
      {{"--grace", "TERM,,KILL", "x"}, "--grace 'TERM,,KILL'"},
      {{"--stdin", "first", "x"}, "--stdin 'first'"},
      {{"--color", "blue", "x"}, "write auto or always or never"},
      {{"--isolation", "vm", "x"}, "--isolation 'vm'"},
      {{"--timeout", "0", "x"}, "more than 0"},
      {{"--env-compat", "slurm", "x"}, "horovod,torch,mpi-ids"},
      {{"--output-filename", "", "x"}, "is empty"},
      {{"--bogus", "x"}, "unknown option '--bogus'"},
      {{"-z", "x"}, "unknown option '-z'"},
      {{"--verbose=yes", "x"}, "takes no value"},
      {{"--control", "udp", "x"}, "write unix or tcp"},
      {{"--grace", "soon", "x"}, "--grace 'soon'"},
      {{"--grace", "-1", "x"}, "--grace '-1'"},
      {{"--grace", "nan", "x"}, "--grace 'nan'"},
      {{"--lease", "1", "x"}, "--lease"},
      {{"-x", "=b", "x"}, "no name"},
      {{"-x", "", "x"}, "no name"},
  }));
  CAPTURE(args);
  try {
    parse_options(args);
    FAIL("was accepted");
  } catch (const UsageError& e) {
    const std::string text = e.what();
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') <= 1);
  }
}

TEST_CASE("output, input and ending", "[options]") {
  Options options = parse_options({"x"});
  CHECK(options.output.tag == "on");
  CHECK(options.output.stdin_to.who == StdinTo::Who::none);
  CHECK(options.ladder.empty());
  CHECK_FALSE(options.timeout);
  options = parse_options({"--tag-output", "off", "-prefix-timestamp", "-output-filename", "logs",
                           "--fold", "--stdin", "3", "--color=never", "--events", "e", "--timeout",
                           "2m", "--isolation", "none", "--env-compat", "torch,mpi-ids", "x"});
  CHECK(options.output.tag == "off");
  CHECK(options.output.timestamps);
  CHECK(options.output.folder == "logs");
  CHECK(options.output.fold);
  CHECK(options.output.stdin_to.who == StdinTo::Who::one);
  CHECK(options.output.stdin_to.rank == 3);
  CHECK(options.output.color == ColorMode::never);
  CHECK(options.events_file == "e");
  CHECK(options.timeout == 2min);
  CHECK(options.isolation == Isolation::none);
  CHECK_FALSE(options.env_compat.horovod);
  CHECK(options.env_compat.torch);
  CHECK(options.env_compat.mpi_ids);
  CHECK(parse_options({"--stdin", "all", "x"}).output.stdin_to.who == StdinTo::Who::all);
}

TEST_CASE("the grace is seconds or a ladder", "[options]") {
  Options options = parse_options({"--grace", "INT,500ms,SIGTERM,20s,KILL", "x"});
  REQUIRE(options.ladder.size() == 3);
  CHECK(options.ladder[0].signal == SIGINT);
  CHECK(options.ladder[0].wait == 500ms);
  CHECK(options.ladder[1].signal == SIGTERM);
  CHECK(options.ladder[1].wait == 20s);
  CHECK(options.ladder[2].signal == SIGKILL);
  CHECK(options.grace == 20500ms);
  options = parse_options({"--grace", "TERM,1s,KILL", "--grace", "7", "x"});
  CHECK(options.ladder.empty());
  CHECK(options.grace == 7s);
}

TEST_CASE("a word of hvdrun's own is one only in the first place", "[options]") {
  Options options = parse_options({"status", "--json"});
  CHECK(options.command_word == "status");
  CHECK(options.command == Words{"--json"});
  for (const Words& args : {Words{"--", "status"}, Words{"-np", "2", "status"}, Words{"./status"}})
    CHECK(parse_options(args).command_word.empty());
}

TEST_CASE("the help fits a screen, and knows every option by topic", "[options]") {
  const std::string front = help_text("");
  CHECK(std::count(front.begin(), front.end(), '\n') <= 40);
  for (const char* name : {"-np", "-H", "-x", "--verbose", "--version", "--help", "--grace"})
    CHECK(front.find(name) != std::string::npos);
  const std::string all = help_text("all");
  for (const char* name : {"--np", "--num-proc", "--hosts", "--control", "--check-build", "--fold",
                           "--isolation", "--env-compat"})
    CHECK(all.find(name) != std::string::npos);
  CHECK(parse_options({"--help", "output"}).help_topic == "output");
  CHECK(help_text("output").find("--fold") != std::string::npos);
  CHECK(help_text("output").find("--control") == std::string::npos);
}

}  // namespace
}  // namespace hvdrun
