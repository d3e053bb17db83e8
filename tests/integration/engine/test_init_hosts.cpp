// A rank that does not get through hvd::init, on one host and on several: the same words, at the
// same times, and never a healthy rank's name.
#include <memory>
#include <regex>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using std::chrono::seconds;

struct Job {
  std::vector<std::string> hosts;  // the words that say where
  std::string of_rank_1;           // the host that it is on
  std::size_t ranks;
  std::string what;  // rank 1 does, see init_probe.cpp
  bool again = false;
};

// An agent for each host, all on this machine.
const std::vector<std::string> kOne{"-np", "3"};
const std::vector<std::string> kTwo{"--transport", "local", "-H", "a:2,b:2", "-np", "3"};
const std::vector<std::string> kEight{"--transport", "local", "-H", "a,b,c,d,e,f,g,h", "-np", "8"};

struct Ended {
  Job job;
  int exit_code;
  std::string text;

  bool says(const std::string& pattern) const {
    return std::regex_search(text, std::regex(pattern));
  }
};

// All at once, as they wait for most of their time.
std::vector<Ended> run_all(const std::vector<Job>& jobs, const std::vector<std::string>& options) {
  std::vector<std::unique_ptr<Background>> running;
  for (const Job& job : jobs) {
    std::vector<std::string> args{build_path("hvdrun")};
    args.insert(args.end(), job.hosts.begin(), job.hosts.end());
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {build_path("tests/integration/programs/init_probe"), "1", job.what});
    if (job.again) args.emplace_back("again");
    running.push_back(std::make_unique<Background>(RunOptions{.args = args}));
  }
  std::vector<Ended> ended;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const int exit_code = running[i]->wait(seconds(30));
    ended.push_back({jobs[i], exit_code, running[i]->output()});
  }
  return ended;
}

const std::string kOnOther = "rank 0 on a and rank 2 on b get no connection to each other";

}  // namespace

TEST_CASE("a rank that ends before hvd::init is named on every number of hosts", "[init]") {
  for (const Ended& one : run_all({{kOne, "localhost", 3, "exit"},
                                   {kOne, "localhost", 3, "exit", true},
                                   {kTwo, "a", 3, "exit"},
                                   {kTwo, "a", 3, "exit", true},
                                   {kEight, "b", 8, "exit"}},
                                  {})) {
    INFO(one.job.ranks << " ranks, again " << one.job.again << "\n" << one.text);
    CHECK(one.exit_code == 81);
    CHECK(
        one.says("hvdrun: rank 1 on " + one.job.of_rank_1 +
                 " \\(pid \\d+\\) exited with code 0 after \\S+ s, but others still needed it\n"));
    CHECK(one.says("because waited for in hvd::init by rank [02-7][-,02-7 ]*\n"));
  }
}

TEST_CASE("a rank that holds hvd::init up is named on every number of hosts", "[init]") {
  for (const Ended& one : run_all({{kOne, "localhost", 3, "sleep"},
                                   {kTwo, "a", 3, "sleep"},
                                   {kTwo, "a", 3, "sleep", true},
                                   {kTwo, "a", 3, "stop"},
                                   {kTwo, "a", 3, "meet"},
                                   {kTwo, "a", 3, "deaf"},
                                   {kEight, "b", 8, "sleep"}},
                                  {"--stall-check-warning-time-seconds", "1",
                                   "--stall-check-shutdown-time-seconds", "2"})) {
    INFO(one.job.ranks << " ranks, " << one.job.what << " again " << one.job.again << "\n"
                       << one.text);
    CHECK(one.exit_code == 80);
    const std::string wait =
        "hvdrun: " + std::to_string(one.job.ranks - (one.job.what == "deaf" ? 0 : 1)) +
        " ranks wait in hvd::init since [12] s for ";
    const std::string end = "; the others waited there, and the job was ended after \\S+ s";
    if (one.job.what == "deaf") {
      CHECK(one.says(wait + "connections between hosts\n"));
      CHECK(one.says("hvdrun:   " + kOnOther + "\n"));
      CHECK(one.says("hvdrun: " + kOnOther + " in hvd::init" + end));
      continue;
    }
    CHECK(one.says(wait + "rank 1\n"));
    CHECK(one.says("hvdrun:   rank 1 on " + one.job.of_rank_1 + " \\(pid \\d+, init_probe\\): " +
                   (one.job.what == "sleep" ? "sleeping" : "stopped")));
    CHECK(one.says("hvdrun: rank 1 " +
                   std::string(one.job.what == "meet" ? "hangs in" : "never reached") +
                   " hvd::init" + end));
  }
}

TEST_CASE("a rank whose own time for hvd::init is over does not take the blame", "[init]") {
  for (const Ended& one : run_all({{kOne, "localhost", 3, "sleep"},
                                   {kTwo, "a", 3, "sleep"},
                                   {kTwo, "a", 3, "meet"},
                                   {kTwo, "a", 3, "deaf"}},
                                  {"-x", "HVD_INIT_TIMEOUT=2"})) {
    INFO(one.job.ranks << " ranks, " << one.job.what << "\n" << one.text);
    CHECK(one.exit_code == 80);
    CHECK(one.says("hvdrun: " + (one.job.what == "sleep"  ? "rank 1 never reached hvd::init"
                                 : one.job.what == "meet" ? "rank 1 hangs in hvd::init"
                                                          : kOnOther + " in hvd::init")));
  }
}

}  // namespace hvdrun::test
