#include <catch2/catch.hpp>

#include "cli/launch_plan.h"
#include "cli/slurm_hosts.h"

namespace hvdrun {
namespace {

TEST_CASE("the variables of an allocation become a list of hosts", "[slurm]") {
  const auto [nodes, tasks, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"tux1", "4", "tux1:4"},
      {"tux[0-2],gpu7", "4(x3),2", "tux0:4,tux1:4,tux2:4,gpu7:2"},
      {"tux[09-11,20]", "1(x2),8(x2)", "tux09:1,tux10:1,tux11:8,tux20:8"},
      {"r[1-2]n[1-2]", "3(x4)", "r1n1:3,r1n2:3,r2n1:3,r2n2:3"},
      {"a,b", "", "a:1,b:1"},
  }));
  CAPTURE(nodes, tasks);
  std::string problem;
  CHECK(slurm_host_list(nodes, tasks, problem) == expected);
  INFO(problem);
}

TEST_CASE("variables that do not fit are told", "[slurm]") {
  const auto [nodes, tasks, part] = GENERATE(table<std::string, std::string, std::string>({
      {"", "1", "SLURM_JOB_NODELIST: an empty item"},
      {"tux[1-", "1", "SLURM_JOB_NODELIST: what stands in the brackets"},
      {"tux[1-3]", "4(x2)", "'4(x2)' is for 2 hosts, SLURM_JOB_NODELIST has 3"},
      {"tux1", "4(x", "'4(x' is not understood"},
      {"tux1", "4(x1", "is not understood"},
      {"tux1", "4(x1)x", "is not understood"},
      {"tux1", "(x1)", "is not understood"},
      {"tux1", "4,", "is not understood"},
      {"tux1", "99999", "is not understood"},
      {"tux1", "1(x4294967295)", "is not understood"},
      {"tux1", "1(x131072),1(x2)", "is not understood"},
  }));
  CAPTURE(nodes, tasks);
  std::string problem;
  CHECK_FALSE(slurm_host_list(nodes, tasks, problem));
  CHECK_THAT(problem, Catch::Contains(part));
}

TEST_CASE("without -H an allocation's hosts are taken", "[slurm]") {
  const auto plan = [](std::vector<std::string> args, const Environment& env) {
    Surroundings here;
    here.env = env;
    here.cwd = "/tmp";
    here.hostname = "tux0";
    here.count_slots = [] { return 6U; };
    args.emplace_back("true");
    return make_plan(parse_options(args), here);
  };
  const Environment two = {"SLURM_JOB_NODELIST=tux[0-1]", "SLURM_TASKS_PER_NODE=3(x2)"};
  const LaunchPlan all = plan({}, two);
  CHECK(all.spec.np == 6);
  REQUIRE(all.spec.hosts.size() == 2);
  CHECK(all.spec.hosts[1].name == "tux1");
  CHECK(all.remote == std::vector<bool>{false, true});
  CHECK(plan({"-np", "4"}, two).spec.np == 4);
  CHECK_THROWS_WITH(plan({"-np", "7"}, two), Catch::Contains("-np 7 asks for more ranks than the 6 "
                                                             "slots of SLURM_JOB_NODELIST"));
  CHECK_THROWS_WITH(plan({}, {"SLURM_JOB_NODELIST=a,b", "SLURM_TASKS_PER_NODE=1"}),
                    Catch::Contains("; name the hosts with -H"));
  // What the user names, and one host that is this one, are as without Slurm.
  CHECK(plan({"-H", "localhost:2"}, two).spec.hosts.size() == 1);
  CHECK(plan({"--transport", "local", "-np", "9"}, two).spec.hosts.size() == 1);
  CHECK(plan({"-np", "9"}, {"SLURM_JOB_NODELIST=tux0", "SLURM_TASKS_PER_NODE=1"}).spec.np == 9);
  CHECK(plan({}, {"SLURM_JOB_NODELIST=tux5", "SLURM_TASKS_PER_NODE=2"}).remote ==
        std::vector<bool>{true});
}

}  // namespace
}  // namespace hvdrun
