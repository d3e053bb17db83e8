#include <set>

#include <catch2/catch.hpp>

#include "cli/launch_plan.h"

namespace hvdrun {
namespace {

Surroundings here() {
  Surroundings surroundings;
  surroundings.env = {"HOME=/root", "LANG=C"};
  surroundings.cwd = "/tmp";
  surroundings.hostname = "node7";
  return surroundings;
}

LaunchPlan plan(std::vector<std::string> args) {
  args.emplace_back("true");
  return make_plan(parse_options(args), here());
}

TEST_CASE("ranks and hosts", "[plan]") {
  CHECK(plan({"-np", "3"}).spec.hosts.front().slots == 3);
  CHECK(plan({"-np", "3"}).spec.hosts.front().name == "localhost");
  CHECK(plan({"-H", "localhost:5"}).spec.np == 5);
  CHECK(plan({"-np", "2", "-H", "localhost:5"}).spec.np == 2);
}

TEST_CASE("all names of this machine are one host", "[plan]") {
  const auto spec = plan({"-H", "node7:2,localhost:1,127.0.0.2:1"}).spec;
  REQUIRE(spec.hosts.size() == 1);
  CHECK(spec.hosts[0].name == "node7");
  CHECK(spec.np == 4);
}

TEST_CASE("the environment goes along, with -x on top", "[plan]") {
  const auto made = plan({"-np", "1", "-x", "LANG=de", "-x", "NEW=1=2", "-x", "HOME", "-x", "NO"});
  const Environment& env = made.spec.env;
  CHECK(std::string(find_variable(env, "LANG")) == "de");
  CHECK(std::string(find_variable(env, "NEW")) == "1=2");
  CHECK(std::string(find_variable(env, "HOME")) == "/root");
  CHECK(std::string(find_variable(env, "PYTHONUNBUFFERED")) == "1");
  CHECK(find_variable(env, "NO") == nullptr);
  REQUIRE(made.warnings.size() == 1);
  CHECK(made.warnings[0].find("NO") != std::string::npos);
}

TEST_CASE("every job has an id of its own", "[plan]") {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(plan({"-np", "1"}).spec.job_id);
  CHECK(ids.size() == 100);
  CHECK(ids.begin()->size() == 32);
}

TEST_CASE("plans that cannot be carried out are refused before anything starts", "[plan]") {
  CHECK_THROWS_WITH(plan({}), Catch::Contains("how many ranks"));
  CHECK_THROWS_WITH(plan({"-np", "5", "-H", "localhost:4"}), Catch::Contains("-np 5") &&
                                                                 Catch::Contains("4 slots") &&
                                                                 Catch::Contains("localhost:5"));
  CHECK_THROWS_WITH(plan({"-H", "localhost:0"}), Catch::Contains("no slots"));
  CHECK_THROWS_WITH(plan({"-H", "a:b"}), Catch::Contains("'a:b'"));
  CHECK_THROWS_AS(plan({"-np", "1", "-H", "gpu1:1"}), HostError);
  CHECK_THROWS_WITH(plan({"-np", "1", "-H", "gpu1:1"}), Catch::Contains("'gpu1'"));
}

}  // namespace
}  // namespace hvdrun
