#include <set>

#include <catch2/catch.hpp>

#include "cli/launch_plan.h"
#include "tests/unit/cli/text_file.h"

namespace hvdrun {
namespace {

Surroundings here() {
  Surroundings surroundings;
  surroundings.env = {"HOME=/root", "LANG=C"};
  surroundings.cwd = "/tmp";
  surroundings.hostname = "node7";
  surroundings.count_slots = [] { return 6U; };
  return surroundings;
}

LaunchPlan plan(std::vector<std::string> args) {
  args.emplace_back("true");
  return make_plan(parse_options(args), here());
}

TEST_CASE("a bad item of -H gets a caret under it", "[plan]") {
  CHECK_THROWS_WITH(plan({"-H", "a:1,b:x"}),
                    "-H a:1,b:x: the number of slots is missing or not a number in 'b:x'; write "
                    "host:slots, as in gpu1:4,gpu2:4\n               ^~~");
  CHECK_THROWS_WITH(plan({"-H", "a:1", "b:2"}), Catch::Contains("-H a:1,b:2"));
}

TEST_CASE("ranks and hosts", "[plan]") {
  CHECK(plan({"-np", "3"}).spec.hosts.front().slots == 3);
  CHECK(plan({"-np", "3"}).spec.hosts.front().name == "localhost");
  CHECK(plan({"-H", "localhost:5"}).spec.np == 5);
  CHECK(plan({"-np", "2", "-H", "localhost:5"}).spec.np == 2);
  CHECK(plan({}).spec.np == 6);
  CHECK(plan({"-np", "9", "-H", "localhost:5", "--oversubscribe"}).spec.np == 9);
}

TEST_CASE("more ranks than slots go to the hosts in turn, when that is wanted", "[plan]") {
  const auto spec =
      plan({"-np", "8", "-H", "a:2,b:1,c:1", "--oversubscribe", "--transport", "local"}).spec;
  REQUIRE(spec.hosts.size() == 3);
  CHECK(spec.hosts[0].slots == 4);
  CHECK(spec.hosts[1].slots == 2);
  CHECK(spec.hosts[2].slots == 2);
}

TEST_CASE("hosts and variables come from files too", "[plan]") {
  const TextFile hosts("localhost slots=2 # here\nnode7:3\n");
  CHECK(plan({"--hostfile", hosts.path()}).spec.np == 5);
  CHECK(plan({"-hostfile", hosts.path(), "-np", "4"}).spec.np == 4);
  const TextFile bad("localhost slots=2\nlocalhost slots=x\n");
  CHECK_THROWS_WITH(plan({"--hostfile", bad.path()}),
                    Catch::Contains(bad.path() + ":2: 'slots=x'"));
  CHECK_THROWS_WITH(plan({"--hostfile", TextFile("# none\n").path()}), Catch::Contains("no host"));
  CHECK_THROWS_WITH(plan({"--hostfile", "/no/such"}),
                    Catch::Contains("--hostfile '/no/such': No such file"));
  CHECK_THROWS_WITH(plan({"--hostfile", "/tmp"}), Catch::Contains("is not a file"));
  const TextFile variables("A=1\nHOME=/data\n");
  const auto spec = plan({"-np", "1", "--env-file", variables.path(), "-x", "A=2"}).spec;
  CHECK(std::string(find_variable(spec.env, "A")) == "2");
  CHECK(std::string(find_variable(spec.env, "HOME")) == "/data");
}

TEST_CASE("Horovod's settings become its variables, under those of -x", "[plan]") {
  const auto spec = plan({"-np", "1", "--fusion-threshold-mb", "32", "--cycle-time-ms", "2.5", "-x",
                          "HOROVOD_CYCLE_TIME=3"})
                        .spec;
  CHECK(std::string(find_variable(spec.env, "HOROVOD_FUSION_THRESHOLD")) == "33554432");
  CHECK(std::string(find_variable(spec.env, "HOROVOD_CYCLE_TIME")) == "3");
}

TEST_CASE("several programs share the ranks in their order", "[plan]") {
  const auto make = [](const std::vector<std::string>& args) {
    return make_plan(parse_options(args), here()).spec;
  };
  const auto spec = make({"-np", "1", "a", ":", "-np", "2", "b", ":", "-np", "3", "c"});
  CHECK(spec.np == 6);
  REQUIRE(spec.programs.size() == 2);
  const std::vector<std::string> by_rank = {"a", "b", "b", "c", "c", "c"};
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    CHECK(argv_of(spec.argv, spec.programs, rank).front() == by_rank[rank]);
  CHECK(make({"-np", "1", "-H", "localhost:4", "a", ":", "-np", "2", "b"}).np == 3);
  CHECK_THROWS_WITH(make({"-np", "1", "-H", "localhost:2", "a", ":", "-np", "2", "b"}),
                    Catch::Contains("-np 3"));
}

TEST_CASE("the folder of the ranks", "[plan]") {
  CHECK(plan({"-np", "1"}).spec.cwd == "/tmp");
  CHECK(plan({"-np", "1", "--chdir", "/data"}).spec.cwd == "/data");
  CHECK(plan({"-np", "1", "-wdir", "sub"}).spec.cwd == "/tmp/sub");
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
  CHECK_THROWS_WITH(plan({"-np", "1", "--stdin", "1"}), Catch::Contains("no such rank"));
  CHECK_THROWS_WITH(plan({"-np", "5", "-H", "localhost:4"}), Catch::Contains("-np 5") &&
                                                                 Catch::Contains("4 slots") &&
                                                                 Catch::Contains("localhost:5"));
  CHECK_THROWS_WITH(plan({"-H", "localhost:0"}), Catch::Contains("no slots"));
  CHECK_THROWS_WITH(plan({"-H", "a:b"}), Catch::Contains("'a:b'"));
}

TEST_CASE("hosts that are not this machine are opened by ssh", "[plan]") {
  const LaunchPlan mixed =
      plan({"-np", "6", "-H", "gpu1:1,localhost:2,gpu2:2,127.0.0.1:1", "-p", "77", "--ssh",
            "ssh -4", "--ssh-args", "-o  User=me", "-i", "key"});
  CHECK(mixed.remote == std::vector<bool>{true, false, true});
  CHECK(mixed.spec.hosts[1].slots == 3);
  CHECK_FALSE(mixed.spec.env_compat.horovod);
  CHECK(ssh_command(mixed.ssh, "gpu1", std::chrono::milliseconds(1500), "run it") ==
        std::vector<std::string>{"ssh",
                                 "-4",
                                 "-T",
                                 "-o",
                                 "BatchMode=yes",
                                 "-o",
                                 "ClearAllForwardings=yes",
                                 "-o",
                                 "ControlMaster=no",
                                 "-o",
                                 "ControlPath=none",
                                 "-o",
                                 "ConnectTimeout=2",
                                 "-o",
                                 "ServerAliveInterval=30",
                                 "-o",
                                 "ServerAliveCountMax=1000",
                                 "-p",
                                 "77",
                                 "-i",
                                 "key",
                                 "-o",
                                 "User=me",
                                 "--",
                                 "gpu1",
                                 "run it"});
  CHECK(ssh_by_hand(mixed.ssh, "gpu1") == "ssh -4 -p 77 -i key -o User=me gpu1 true");
  CHECK(mixed.warnings.size() == 1);
  CHECK(starts_ranks(mixed, true));
  CHECK(starts_ranks(mixed, false));
  // Hosts without a rank change nothing.
  const LaunchPlan unused = plan({"-np", "2", "-H", "localhost:2,gpu1:2"});
  CHECK_FALSE(starts_ranks(unused, true));
  CHECK(unused.spec.env_compat.horovod);
  CHECK(unused.warnings.empty());
  CHECK_FALSE(starts_ranks(plan({"-np", "1", "-H", "gpu1:1,localhost:1"}), false));
  CHECK(plan({"--env-compat", "torch", "-np", "1", "-H", "gpu1:1"}).warnings.empty());
  // A port without authentication is opened for other hosts only when it is asked for by name.
  const LaunchPlan asked = plan({"--env-compat", "horovod,torch", "-np", "1", "-H", "gpu1:1"});
  CHECK(asked.spec.env_compat.horovod);
  REQUIRE(asked.warnings.size() == 1);
  CHECK_THAT(asked.warnings.front(), Catch::Contains("no authentication"));
  CHECK_THROWS_WITH(plan({"--ssh-args", " ", "-np", "1"}), Catch::Contains("--ssh-args"));
}

}  // namespace
}  // namespace hvdrun
