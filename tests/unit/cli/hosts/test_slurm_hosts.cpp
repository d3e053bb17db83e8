#include "cli/hosts/slurm_hosts.h"
#include "cli/plan/launch_plan.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("the variables of an allocation become a list of hosts", "[slurm]") {
  const auto [nodes, tasks, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"tux1", "4", "tux1:4"},
      {"tux[0-2],gpu7", "4(x3),2", "tux0:4,tux1:4,tux2:4,gpu7:2"},
      {"tux[09-11,20]", "1(x2),8(x2)", "tux09:1,tux10:1,tux11:8,tux20:8"},
      {"r[1-2]n[1-2]", "3(x4)", "r1n1:3,r1n2:3,r2n1:3,r2n2:3"},
      {"a,b", "", "a,b"},
      {"a,b", "1(x2)", "a:1,b:1"},
  }));
  CAPTURE(nodes, tasks);
  std::string problem;
  CHECK(slurm_host_list({{"", nodes, tasks}}, problem) == expected);
  INFO(problem);
}

TEST_CASE("one task for each node is told only where somebody asked for it", "[slurm]") {
  const auto [more, expected] = GENERATE(table<Environment, std::string>({
      {{"SLURM_TASKS_PER_NODE=1(x2)"}, "a,b"},
      {{"SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS=2"}, "a:1,b:1"},
      {{"SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS_PER_NODE=1"}, "a:1,b:1"},
      {{"SLURM_TASKS_PER_NODE=1,2"}, "a:1,b:2"},
  }));
  Environment env{"SLURM_JOB_NODELIST=a,b"};
  env.insert(env.end(), more.begin(), more.end());
  std::string problem;
  const auto components = slurm_components(env, problem);
  REQUIRE(components);
  CHECK(slurm_host_list(*components, problem) == expected);
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
  CHECK_FALSE(slurm_host_list({{"", nodes, tasks}}, problem));
  CHECK_THAT(problem, Catch::Contains(part));
}

TEST_CASE("a job of several components has the hosts of all", "[slurm]") {
  const Environment of_two = {"SLURM_HET_SIZE=2",
                              "SLURM_JOB_NODELIST=tux0",  // a batch script's: the first's
                              "SLURM_TASKS_PER_NODE=2",
                              "SLURM_JOB_NODELIST_HET_GROUP_0=tux0",
                              "SLURM_TASKS_PER_NODE_HET_GROUP_0=2",
                              "SLURM_JOB_NODELIST_HET_GROUP_1=gpu[1-2]",
                              "SLURM_TASKS_PER_NODE_HET_GROUP_1=4(x2)"};
  std::string problem;
  const auto components = slurm_components(of_two, problem);
  REQUIRE(components);
  REQUIRE(components->size() == 2);
  CHECK(slurm_host_list(*components, problem) == "tux0:2,gpu1:4,gpu2:4");
  CHECK(slurm_hosts_where(*components) ==
        "SLURM_JOB_NODELIST_HET_GROUP_0 to SLURM_JOB_NODELIST_HET_GROUP_1");
  CHECK(slurm_nodes(*components) ==
        std::map<std::string, std::uint32_t>{{"tux0", 0}, {"gpu1", 1}, {"gpu2", 1}});
  // Before Slurm 20.02.
  const auto packed =
      slurm_components({"SLURM_PACK_SIZE=1", "SLURM_JOB_NODELIST_PACK_GROUP_0=a"}, problem);
  REQUIRE(packed);
  CHECK(slurm_host_list(*packed, problem) == "a");
  CHECK(slurm_components({}, problem)->empty());
  CHECK(problem.empty());
}

TEST_CASE("components that are not all there are told", "[slurm]") {
  const auto [env, part] = GENERATE(table<Environment, std::string>({
      {{"SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST=a", "SLURM_JOB_NODELIST_HET_GROUP_0=a"},
       "SLURM_HET_SIZE says that this Slurm job has 2 components, but there is no "
       "SLURM_JOB_NODELIST_HET_GROUP_1"},
      {{"SLURM_HET_SIZE=x", "SLURM_JOB_NODELIST=a"}, "SLURM_HET_SIZE 'x' is not understood"},
      {{"SLURM_HET_SIZE=0", "SLURM_JOB_NODELIST=a"}, "SLURM_HET_SIZE '0' is not understood"},
      {{"SLURM_HET_SIZE=9999", "SLURM_JOB_NODELIST=a"}, "'9999' is not understood"},
  }));
  CAPTURE(part);
  std::string problem;
  CHECK_FALSE(slurm_components(env, problem));
  CHECK_THAT(problem, Catch::Contains(part));
  problem.clear();
  CHECK_FALSE(
      slurm_host_list({{"_HET_GROUP_0", "a", "1"}, {"_HET_GROUP_1", "b[1-2]", "1"}}, problem));
  CHECK_THAT(problem, Catch::Contains("SLURM_TASKS_PER_NODE_HET_GROUP_1 '1' is for 1 hosts, "
                                      "SLURM_JOB_NODELIST_HET_GROUP_1 has 2"));
}

Environment two_with_id() {
  return {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=tux[0-1]", "SLURM_TASKS_PER_NODE=3(x2)"};
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
  CHECK(all.spec.np() == 6);
  REQUIRE(all.spec.hosts().size() == 2);
  CHECK(all.spec.hosts()[1].name == "tux1");
  CHECK(all.remote == std::vector<bool>{false, true});
  CHECK(plan({"-np", "4"}, two).spec.np() == 4);
  CHECK_THROWS_WITH(plan({"-np", "7"}, two), Catch::Contains("-np 7 asks for more ranks than the 6 "
                                                             "slots of SLURM_JOB_NODELIST"));
  CHECK_THROWS_WITH(plan({}, {"SLURM_JOB_NODELIST=a,b", "SLURM_TASKS_PER_NODE=1"}),
                    Catch::Contains("; name the hosts with -H"));
  Environment several = {"SLURM_JOB_ID=7",
                         "SLURM_HET_SIZE=2",
                         "SLURM_JOB_NODELIST_HET_GROUP_0=tux0",
                         "SLURM_TASKS_PER_NODE_HET_GROUP_0=2",
                         "SLURM_JOB_NODELIST_HET_GROUP_1=tux[1-2]",
                         "SLURM_TASKS_PER_NODE_HET_GROUP_1=1(x2)"};
  const LaunchPlan both = plan({"--ssh", "srun"}, several);
  CHECK(both.spec.np() == 4);
  REQUIRE(both.spec.hosts().size() == 3);
  CHECK(both.spec.hosts()[0].slots == 2);
  // By a step within their own component.
  CHECK(both.logins[0].component == std::nullopt);  // this machine
  CHECK(both.logins[1].component == 1U);
  CHECK(both.logins[2].component == 1U);
  CHECK(plan({"--ssh", "srun", "-H", "tux2:1"}, several).logins[0].component == 1U);
  CHECK_THROWS_WITH(plan({"--ssh", "srun", "-H", "tux9:1"}, several),
                    Catch::Contains("not in this Slurm allocation (SLURM_JOB_NODELIST_HET_GROUP_0 "
                                    "to SLURM_JOB_NODELIST_HET_GROUP_1 'tux0,tux[1-2]')"));
  several.erase(several.begin() + 4);
  CHECK_THROWS_WITH(plan({}, several), Catch::Contains("there is no SLURM_JOB_NODELIST_HET_GROUP_1;"
                                                       " name the hosts with -H"));
  CHECK_THROWS_WITH(plan({"--ssh", "srun", "-H", "tux1:1"}, several),
                    Catch::Contains("there is no SLURM_JOB_NODELIST_HET_GROUP_1"));
  CHECK(plan({"--ssh", "srun"}, two_with_id()).logins[1].component == std::nullopt);
  // Hosts that the user names, and one host that is this one, are as without Slurm.
  CHECK(plan({"-H", "localhost:2"}, two).spec.hosts().size() == 1);
  CHECK(plan({"--transport", "local", "-np", "9"}, two).spec.hosts().size() == 1);
  CHECK(plan({"-np", "9"}, {"SLURM_JOB_NODELIST=tux0", "SLURM_TASKS_PER_NODE=1"}).spec.np() == 9);
  CHECK(plan({}, {"SLURM_JOB_NODELIST=tux5", "SLURM_TASKS_PER_NODE=2"}).remote ==
        std::vector<bool>{true});
}

}  // namespace
}  // namespace hvdrun
