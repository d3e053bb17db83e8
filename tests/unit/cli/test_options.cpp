#include <algorithm>

#include <catch2/catch.hpp>

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

TEST_CASE("the help fits a screen and knows every option", "[options]") {
  const std::string text = help_text();
  CHECK(std::count(text.begin(), text.end(), '\n') <= 24);
  for (const char* name : {"-np", "--np", "--num-proc", "-H", "--hosts", "-x", "--control",
                           "--verbose", "--version", "--check-build", "--help", "--grace"})
    CHECK(text.find(name) != std::string::npos);
}

}  // namespace
}  // namespace hvdrun
