#include <map>
#include <string>
#include <vector>

#include "cli/plan/host_growth.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

struct GrowthFixture {
  GrowthFixture() {
    Surroundings here;
    here.cwd = "/tmp";
    here.hostname = "node7";
    here.list_hosts = [this](const HostSource& source) {
      ++asked;
      return read_listing(source, first);
    };
    here.pause_listing = [this] { first += "b:2\n"; };
    surroundings = here;
  }
  LaunchPlan plan(std::vector<std::string> args) {
    args.insert(args.begin(), {"--host-discovery-script", "./hosts.sh"});
    args.emplace_back("true");
    return make_plan(parse_options(args), surroundings);
  }
  std::vector<HostEntry> entries(const std::string& text) {
    return read_listing({HostSource::Kind::script, "s", "w", {}}, text).hosts;
  }
  static std::string words(const std::vector<ListedHost>& hosts) {
    std::string text;
    for (const ListedHost& host : hosts)
      text += (text.empty() ? "" : " ") + std::to_string(host.index) + "=" + host.name + ":" +
              std::to_string(host.slots) + (host.reopens ? "" : "!");
    return text;
  }

  std::string first = "a:2\nlocalhost:1\nnode7:1\n";
  int asked = 0;
  Surroundings surroundings;
};

TEST_CASE_METHOD(GrowthFixture, "a script is asked until it lists enough", "[plan]") {
  const LaunchPlan small = plan({"-np", "4"});
  CHECK(asked == 1);
  CHECK(small.spec.np() == 4);
  CHECK(small.spec.min_np == 4);
  CHECK(small.spec.max_np == limits::kMaxRanks);
  const LaunchPlan large = plan({"-np", "5", "--min-np", "2", "--max-np", "5"});
  CHECK(asked == 3);
  CHECK(large.spec.np() == 5);
  CHECK(large.spec.min_np == 2);
  CHECK(large.spec.max_np == 5);
  CHECK(large.spec.hosts().size() == 3);
  // All that it lists, as horovodrun: -np is the least to begin with.
  CHECK(plan({"-np", "1"}).spec.np() == 6);
  CHECK(plan({"--max-np", "3"}).spec.np() == 3);
}

TEST_CASE_METHOD(GrowthFixture, "an allocation of Slurm may lose nodes", "[plan]") {
  surroundings.env = {"SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=n[1-2]",
                      "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NTASKS=4"};
  const auto source = [&](std::vector<std::string> args) {
    args.emplace_back("true");
    return make_plan(parse_options(args), surroundings).source;
  };
  const HostSource slurm = source({"--min-np", "1", "--max-np", "4"});
  CHECK(slurm.kind == HostSource::Kind::slurm);
  CHECK(slurm.text == "4711");
  CHECK(slurm.slots_of == std::map<std::string, std::uint32_t>{{"n1", 2}, {"n2", 2}});
  CHECK(source({"--min-np", "1"}).kind == HostSource::Kind::none);
  CHECK(source({"--min-np", "1", "--max-np", "4", "-H", "n1:2"}).kind == HostSource::Kind::none);
}

TEST_CASE_METHOD(GrowthFixture, "one that lists too little for too long is given up", "[plan]") {
  surroundings.pause_listing = [] {};
  CHECK_THROWS_AS(plan({"-np", "5", "--elastic-timeout", "0.05"}), HostError);
  CHECK_THROWS_WITH(plan({"-np", "5", "--elastic-timeout", "0.05"}),
                    Catch::Contains("--host-discovery-script: ./hosts.sh lists 4 slots of 5"));
  first = "a:x\n";
  CHECK_THROWS_WITH(plan({"-np", "1", "--elastic-timeout", "0.05"}),
                    Catch::Contains("it lists 'a:x', which is no host"));
}

TEST_CASE_METHOD(GrowthFixture, "what makes no sense with hosts that come and go", "[plan]") {
  CHECK_THROWS_WITH(plan({"-np", "4", "--max-np", "3"}), "-np 4: --max-np allows 3 ranks");
  CHECK_THROWS_WITH(plan({"--min-np", "4", "--max-np", "3"}),
                    "--min-np 4: --max-np allows 3 ranks");
  CHECK_THROWS_WITH(plan({"-N", "2"}), Catch::Contains("-N 2: hosts that come and go"));
  CHECK_THROWS_WITH(plan({"-np", "1", "a", ":", "-np", "1", "b"}),
                    Catch::Contains("start one program"));
  const auto without = [this](std::vector<std::string> args) {
    args.emplace_back("true");
    return make_plan(parse_options(args), surroundings);
  };
  CHECK_THROWS_WITH(without({"-np", "2", "--max-np", "3"}),
                    "--max-np: the job is not elastic; --min-np N makes it so");
  CHECK_THROWS_WITH(without({"-np", "2", "--reset-limit", "3"}),
                    Catch::Contains("the job is not elastic"));
  CHECK_THROWS_WITH(without({"-np", "2", "--blacklist-cooldown-range", "1", "2"}),
                    Catch::Contains("the job is not elastic"));
  CHECK_THROWS_WITH(without({"-np", "2", "--slots", "3"}), Catch::Contains("behind each host"));
  // With a fixed list it is a number of ranks.
  const JobSpec fixed =
      without({"-np", "2", "--min-np", "1", "--max-np", "3", "-H", "localhost:4"}).spec;
  CHECK(fixed.np() == 3);
  CHECK(fixed.max_np == 3);  // hosts may be added by hand
}

TEST_CASE_METHOD(GrowthFixture, "hosts that come have the next numbers", "[plan]") {
  LaunchPlan grown = plan({"-np", "4"});
  HostGrowth growth(grown);
  // localhost and node7 are this machine, which is not opened again.
  CHECK(words(growth.number(entries("c:4\nnode7:2\na:2\nlocalhost:1\n"), grown)) ==
        "2=c:4 1=localhost:3! 0=a:2");
  CHECK(grown.spec.hosts().size() == 3);
  CHECK(grown.remote == std::vector<bool>{true, false, true});
  CHECK(grown.spec.np() == 4);  // places are the coordinator's to give
  CHECK(words(growth.number(entries("me@c:1\n"), grown)) == "3=c:1");
  CHECK(grown.logins.at(3).user == "me");
  CHECK(words(growth.number(entries("c:2\n"), grown)) == "2=c:2");
  CHECK(grown.spec.hosts().size() == 4);
}

TEST_CASE_METHOD(GrowthFixture, "this machine may come later, too", "[plan]") {
  first = "a:2\n";
  LaunchPlan grown = plan({"-np", "2"});
  HostGrowth growth(grown);
  CHECK(words(growth.number(entries("a:2\nlocalhost:1\n127.0.0.1:1\n"), grown)) ==
        "0=a:2 1=localhost:2");
  CHECK(grown.remote == std::vector<bool>{true, false});
}

}  // namespace
}  // namespace hvdrun
