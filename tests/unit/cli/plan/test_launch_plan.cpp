#include <set>

#include "cli/openers/ssh/ssh_command.h"
#include "cli/plan/launch_plan.h"
#include "common/base/launch_record.h"
#include "common/base/limits.h"
#include "tests/catch.h"
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
  CHECK(plan({"-np", "3"}).spec.hosts().front().slots == 3);
  CHECK(plan({"-np", "3"}).spec.hosts().front().name == "localhost");
  CHECK(plan({"-H", "localhost:5"}).spec.np() == 5);
  CHECK(plan({"-np", "2", "-H", "localhost:5"}).spec.np() == 2);
  CHECK(plan({}).spec.np() == 6);
  CHECK_THROWS_WITH(plan({"-np", "16385"}), Catch::Contains("one host takes 16384 ranks at most"));
  CHECK(plan({"-np", "9", "-H", "localhost:5", "--oversubscribe"}).spec.np() == 9);
}

TEST_CASE("files of other hosts go to the folder of the option, else of the variable", "[plan]") {
  const auto sync = [](const std::vector<std::string>& words, const std::string& own = "") {
    std::vector<std::string> args = words;
    args.emplace_back("true");
    Surroundings with = here();
    if (!own.empty()) with.env.push_back("OCI__SYNC_DIR=" + own);
    return make_plan(parse_options(args), with).sync;
  };
  CHECK(sync({"-np", "2"}).folder.empty());
  CHECK_FALSE(sync({"-np", "2"}).is_used);
  const SyncPlan given = sync({"--sync-dir", "out", "-np", "2"}, "/own");
  CHECK(given.folder == "/tmp/out");
  CHECK(given.where == "--sync-dir");
  CHECK(given.is_used);
  // Ranks of this machine have the variable to themselves.
  const SyncPlan alone = sync({"-np", "2"}, "/own");
  CHECK(alone.folder == "/own");
  CHECK_FALSE(alone.is_used);
  const SyncPlan several = sync({"-np", "2", "-H", "localhost:1,b:1"}, "/own");
  CHECK(several.folder == "/own");
  CHECK(several.where == "OCI__SYNC_DIR");
  CHECK(several.is_used);
  CHECK(sync({"-np", "2", "-x", "OCI__SYNC_DIR=/mine"}, "/own").folder == "/mine");
  // Others may come.
  CHECK(sync({"-np", "1", "--min-np", "1", "--max-np", "2", "-H", "localhost:2"}, "/own").is_used);
}

TEST_CASE("a job may start again, and its ranks know how often", "[plan]") {
  const LaunchPlan never = plan({"-np", "3", "-x", "HVD_RESTART_COUNT=7"});
  CHECK(never.restarts.most == 0);
  CHECK(find_variable(never.spec.env, "HVD_MAX_RESTARTS") == nullptr);
  const LaunchPlan often = plan({"-np", "3", "--max-restarts", "2", "-x", "HVD_RESTART_COUNT=7"});
  CHECK(often.restarts.most == 2);
  CHECK(often.restarts.first_np == 3);
  CHECK(find_variable(often.spec.env, "HVD_RESTART_COUNT") == std::string("0"));
  CHECK(find_variable(often.spec.env, "HVD_MAX_RESTARTS") == std::string("2"));
}

TEST_CASE("a plan without lost hosts has the ranks that the others have place for", "[plan]") {
  const auto without = [](std::vector<std::string> args, std::set<std::string> lost) {
    args.emplace_back("true");
    Options options = parse_options(args);
    options.without_hosts = std::move(lost);
    return make_plan(options, here()).spec;
  };
  const std::vector<std::string> three = {"-np", "5", "--min-np", "2", "-H", "a:2,b:2,c:2"};
  const JobSpec left = without(three, {"b"});
  CHECK(left.np() == 4);
  CHECK(left.hosts().size() == 2);
  CHECK(left.ranks.host_name(2) == "c");
  CHECK(without(three, {"x"}).np() == 5);
  CHECK(without({"-np", "1", "--min-np", "1", "-H", "a:2,b:2"}, {"a"}).np() == 1);
  CHECK_THROWS_WITH(without({"-np", "6", "--min-np", "5", "-H", "a:2,b:2,c:2"}, {"b"}),
                    Catch::Contains("--min-np 5: there are 4 ranks"));
  CHECK_THROWS_WITH(without(three, {"a", "b", "c"}), "no host of the job is left");
}

TEST_CASE("--min-np makes a job elastic", "[plan]") {
  CHECK(plan({"-np", "3"}).spec.min_np == 0);
  const JobSpec spec = plan({"-np", "3", "--min-num-proc", "2"}).spec;
  CHECK(spec.min_np == 2);
  CHECK(spec.elastic_timeout == limits::kElasticTimeout);
  CHECK(plan({"-np", "3", "--min-np", "3", "--elastic-timeout", "1.5"}).spec.elastic_timeout ==
        std::chrono::milliseconds(1500));
  CHECK_THROWS_WITH(plan({"-np", "3", "--min-np", "4"}),
                    Catch::Contains("--min-np 4: there are 3 ranks; give as many at most"));
  CHECK_THROWS_WITH(plan({"-np", "3", "--elastic-timeout", "9"}),
                    Catch::Contains("the job is not elastic; --min-np N makes it so"));
  CHECK_THROWS_WITH(plan({"-np", "2", "--min-np", "1", "a", ":", "-np", "1", "b"}),
                    Catch::Contains("start one program"));
}

TEST_CASE("more ranks than slots go to the hosts in turn, when that is wanted", "[plan]") {
  const auto spec =
      plan({"-np", "8", "-H", "a:2,b:1,c:1", "--oversubscribe", "--transport", "local"}).spec;
  REQUIRE(spec.hosts().size() == 3);
  CHECK(spec.hosts()[0].slots == 4);
  CHECK(spec.hosts()[1].slots == 2);
  CHECK(spec.hosts()[2].slots == 2);
}

TEST_CASE("hosts and variables come from files too", "[plan]") {
  const TextFile hosts("localhost slots=2 # here\nnode7:3\n");
  CHECK(plan({"--hostfile", hosts.path()}).spec.np() == 5);
  CHECK(plan({"-hostfile", hosts.path(), "-np", "4"}).spec.np() == 4);
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

TEST_CASE("an outer job's variables are dropped before those of this one are set", "[plan]") {
  Surroundings outer = here();
  outer.env.insert(outer.env.end(), {"RANK=9", "PMI_RANK=9", "ROLE_NAME=outer", "GROUP_X=1"});
  const TextFile file("GROUP_X=2\n");
  const auto spec = make_plan(parse_options({"-np", "1", "-x", "PMI_RANK=3", "-x", "ROLE_NAME",
                                             "--env-file", file.path(), "x"}),
                              outer)
                        .spec;
  CHECK(find_variable(spec.env, "RANK") == nullptr);
  CHECK(std::string(find_variable(spec.env, "PMI_RANK")) == "3");
  CHECK(std::string(find_variable(spec.env, "ROLE_NAME")) == "outer");
  CHECK(std::string(find_variable(spec.env, "GROUP_X")) == "2");
}

// A rank's environment, and what an hvdrun that it starts makes of it.
TEST_CASE("an hvdrun that a rank starts has no network and no timeline of the outer job",
          "[plan]") {
  const auto inner = [](std::vector<std::string> args, const Environment& set_since = {}) {
    args.emplace_back("true");
    WorkerPlace place;
    place.interface = "eth7";
    place.host_address = "10.0.0.1";
    Surroundings rank = here();
    rank.env = worker_environment(make_plan(parse_options(args), here()).spec.env, place);
    for (const std::string& entry : set_since) rank.env.push_back(entry);
    const LaunchPlan made = make_plan(parse_options({"-np", "1", "x"}), rank);
    std::string text = made.timeline.file + ";";
    for (const std::string& entry : made.spec.env)
      if (entry.find("IFNAME") != entry.npos || entry.find("IFACE") != entry.npos ||
          entry.starts_with("OMP_") ||
          (entry.starts_with("HVD_") && !entry.starts_with(kLaunchRecord)))
        text += " " + entry;
    return text;
  };
  CHECK(inner({"-np", "1"}) == ";");
  CHECK(inner({"--network-interfaces", "eth0,ib0"}) == ";");
  CHECK(inner({"--timeline-filename", "t.json"}) == ";");
  CHECK(inner({"-x", "HVD_TIMELINE=x.json"}) == ";");
  CHECK(inner({"-np", "1"}, {"HVD_TIMELINE=own.json"}) == "own.json; HVD_TIMELINE=own.json");
  CHECK(inner({"-x", "NCCL_SOCKET_IFNAME=eth5", "-x", "HVD_COLLECTIVE_TIMEOUT=3"}) ==
        "; NCCL_SOCKET_IFNAME=eth5 HVD_COLLECTIVE_TIMEOUT=3");
}

TEST_CASE("hvdrun waits as long for hvd::init as the ranks do", "[plan]") {
  CHECK(plan({"-np", "1"}).spec.init_timeout == std::chrono::seconds(305));
  CHECK(plan({"-np", "1", "-x", "HVD_INIT_TIMEOUT=0.5"}).spec.init_timeout ==
        std::chrono::milliseconds(5500));
  CHECK(plan({"-np", "1", "-x", "HVD_INIT_TIMEOUT=900"}).spec.init_timeout ==
        std::chrono::seconds(905));
  CHECK_THROWS_WITH(plan({"-np", "1", "-x", "HVD_INIT_TIMEOUT=10m"}),
                    Catch::Contains("HVD_INIT_TIMEOUT='10m': write seconds"));
}

TEST_CASE("Horovod's settings become its variables, under those of -x", "[plan]") {
  const auto spec = plan({"-np", "1", "--fusion-threshold-mb", "32", "--cycle-time-ms", "2.5", "-x",
                          "HOROVOD_CYCLE_TIME=3"})
                        .spec;
  CHECK(std::string(find_variable(spec.env, "HOROVOD_FUSION_THRESHOLD")) == "33554432");
  CHECK(std::string(find_variable(spec.env, "HOROVOD_CYCLE_TIME")) == "3");
}

TEST_CASE("the stall check has Horovod's settings, wherever they come from", "[plan]") {
  using std::chrono::seconds;
  CHECK(plan({}).spec.stall_warning == seconds(60));
  CHECK(plan({}).spec.stall_shutdown == seconds(0));
  const auto spec =
      plan({"--stall-check-warning-time-seconds", "5", "--stall-check-shutdown-time-seconds", "20",
            "-x", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=30"})
          .spec;
  CHECK(spec.stall_warning == seconds(5));
  CHECK(spec.stall_shutdown == seconds(30));
  CHECK(plan({"--disable-stall-check"}).spec.stall_warning == seconds(0));
  CHECK_THROWS_WITH(plan({"-x", "HOROVOD_STALL_CHECK_TIME_SECONDS=soon"}),
                    "HOROVOD_STALL_CHECK_TIME_SECONDS 'soon': a whole number from 0 to 2147483647 "
                    "is needed");
}

TEST_CASE("several programs share the ranks in their order", "[plan]") {
  const auto make = [](const std::vector<std::string>& args) {
    return make_plan(parse_options(args), here()).spec;
  };
  const auto spec = make({"-np", "1", "a", ":", "-np", "2", "b", ":", "-np", "3", "c"});
  CHECK(spec.np() == 6);
  REQUIRE(spec.programs.size() == 2);
  const std::vector<std::string> by_rank = {"a", "b", "b", "c", "c", "c"};
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    CHECK(argv_of(spec.argv, spec.programs, rank).front() == by_rank[rank]);
  CHECK(make({"-np", "1", "-H", "localhost:4", "a", ":", "-np", "2", "b"}).np() == 3);
  CHECK_THROWS_WITH(make({"-np", "1", "-H", "localhost:2", "a", ":", "-np", "2", "b"}),
                    Catch::Contains("-np 3"));
}

TEST_CASE("the folder of the ranks", "[plan]") {
  CHECK(plan({"-np", "1"}).spec.cwd == "/tmp");
  CHECK(plan({"-np", "1", "--chdir", "/data"}).spec.cwd == "/data");
  CHECK(plan({"-np", "1", "-wdir", "sub"}).spec.cwd == "/tmp/sub");
  Surroundings gone = here();
  gone.cwd.clear();
  const auto of = [&](std::vector<std::string> args) {
    args.emplace_back("true");
    return make_plan(parse_options(args), gone).spec.cwd;
  };
  CHECK(of({"-np", "1", "--chdir", "/data"}) == "/data");
  CHECK_THROWS_WITH(of({"-np", "1"}), Catch::Contains("was removed"));
  CHECK_THROWS_WITH(of({"-np", "1", "--chdir", "sub"}), Catch::Contains("--chdir /"));
}

TEST_CASE("PWD is the folder of the ranks", "[plan]") {
  Surroundings shell = here();
  const auto pwd = [&](const std::string& folder) {
    std::vector<std::string> args{"-np", "1"};
    if (!folder.empty()) args.insert(args.end(), {"--chdir", folder});
    args.emplace_back("true");
    const LaunchPlan made = make_plan(parse_options(args), shell);
    const char* const value = find_variable(made.spec.env, "PWD");
    return std::string(value == nullptr ? "none" : value);
  };
  CHECK(pwd("/data") == "none");  // nor was there one
  shell.env.emplace_back("PWD=/tmp");
  CHECK(pwd("") == "/tmp");
  CHECK(pwd("/data//./x/") == "/data/x");
  CHECK(pwd("sub") == "/tmp/sub");
  CHECK(pwd(".") == "/tmp");
  CHECK(pwd("/.") == "/");
  CHECK(pwd("..") == "none");  // where that leads is another host's matter
}

TEST_CASE("all names of this machine are one host", "[plan]") {
  const auto spec = plan({"-H", "node7:2,localhost:1,127.0.0.2:1"}).spec;
  REQUIRE(spec.hosts().size() == 1);
  CHECK(spec.hosts()[0].name == "node7");
  CHECK(spec.np() == 4);
}

TEST_CASE("this machine is known by its addresses and by look-up", "[plan]") {
  Surroundings looking = here();
  looking.user = [] { return std::string("me"); };
  std::vector<std::string> asked;
  looking.look_up = [&](const std::vector<std::string>& names) {
    asked = names;
    std::vector<bool> found;
    for (const std::string& name : names) found.push_back(name.starts_with("own"));
    return found;
  };
  const auto make = [&](const std::vector<std::string>& args) {
    std::vector<std::string> words = args;
    words.emplace_back("true");
    return make_plan(parse_options(words), looking);
  };
  const LaunchPlan mixed = make(
      {"-H", "gpu1:1,own1:1,[::1]:1,gpu2:2,LocalHost,NODE7:1,own2.lab:1,127.3.2.1,192.0.2.7:1"});
  CHECK(asked == std::vector<std::string>{"gpu1", "own1", "gpu2", "own2.lab"});
  REQUIRE(mixed.spec.hosts().size() == 4);
  CHECK(mixed.spec.hosts()[0].name == "gpu1");
  CHECK(mixed.spec.hosts()[1].name == "own1");
  CHECK(mixed.spec.hosts()[1].slots == 6);
  CHECK(mixed.spec.hosts()[2].name == "gpu2");
  CHECK(mixed.spec.hosts()[3].name == "192.0.2.7");
  CHECK(mixed.remote == std::vector<bool>{true, false, true, true});
  CHECK(mixed.spec.elsewhere == mixed.remote);
  REQUIRE(mixed.notes.size() == 1);
  CHECK(mixed.notes[0] ==
        "own1, ::1, LocalHost, NODE7, own2.lab, 127.3.2.1: this machine, with 6 slots");
  // Another user or port means ssh, the same one does not.
  const LaunchPlan logins = make(
      {"-H", "localhost:1,me@localhost:1,localhost:22:1,you@localhost:1,own:2222:1,me@gpu1:1"});
  CHECK(logins.remote == std::vector<bool>{false, true, true, true});
  CHECK(logins.spec.hosts()[0].slots == 3);
  CHECK(logins.logins[1] == HostLogin{"you", 0});
  CHECK(logins.logins[2] == HostLogin{"", 2222});
  CHECK(logins.logins[3] == HostLogin{"me", 0});
  CHECK(make({"-p", "2222", "-H", "localhost:2222:1,localhost:1"}).spec.hosts().size() == 1);
  CHECK(make({"-p", "2222", "-H", "localhost:22:1,localhost:1"}).remote ==
        std::vector<bool>{true, false});
  // Everything is local when it is told to be.
  asked.clear();
  CHECK(make({"--transport", "local", "-H", "gpu1:1,me@gpu2:1"}).remote ==
        std::vector<bool>{false, false});
  CHECK(asked.empty());
}

TEST_CASE("hosts that stand twice are said to be one", "[plan]") {
  const LaunchPlan twice = plan({"-H", "a:1,b:1,a:2", "--env-compat", "torch"});
  CHECK(twice.notes ==
        std::vector<std::string>{"a stands 2 times in the list: one host with 3 slots"});
  CHECK(twice.warnings.empty());
  const LaunchPlan port = plan({"-np", "4", "-H", "localhost:2222"});
  REQUIRE(port.warnings.size() == 1);
  CHECK(port.warnings[0] ==
        "-H gives localhost 2222 slots; a port stands before the slots, as in localhost:2222:4");
}

TEST_CASE("the user and port of a host go before those of all", "[plan]") {
  const LaunchPlan made = plan({"-p", "77", "-H", "me@gpu1:2222:1,you@gpu2:1,gpu3:1"});
  const auto by_hand = [&](std::size_t host) {
    return ssh_by_hand(with_login(made.ssh, made.logins[host]), made.spec.hosts()[host].name);
  };
  CHECK(by_hand(0) == "ssh -l me -p 2222 gpu1 true");
  CHECK(by_hand(1) == "ssh -l you -p 77 gpu2 true");
  CHECK(by_hand(2) == "ssh -p 77 gpu3 true");
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
  CHECK(mixed.spec.hosts()[1].slots == 3);
  CHECK(mixed.spec.env_compat.horovod);
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
                                 "ServerAliveInterval=30",
                                 "-o",
                                 "ServerAliveCountMax=1000",
                                 "-p",
                                 "77",
                                 "-i",
                                 "key",
                                 "-o",
                                 "User=me",
                                 "-o",
                                 "ConnectTimeout=2",
                                 "--",
                                 "gpu1",
                                 "run it"});
  // The user's configuration of it counts where nothing is said here.
  for (const auto& words : {ssh_command(mixed.ssh, "gpu1", std::nullopt, "run it"),
                            ssh_query_command(mixed.ssh, "gpu1")})
    for (const std::string& word : words) CHECK_FALSE(word.starts_with("ConnectTimeout"));
  CHECK(ssh_by_hand(mixed.ssh, "gpu1") == "ssh -4 -p 77 -i key -o User=me gpu1 true");
  CHECK(mixed.warnings.empty());
  CHECK(starts_ranks(mixed, true));
  CHECK(starts_ranks(mixed, false));
  // Hosts without a rank change nothing.
  const LaunchPlan unused = plan({"-np", "2", "-H", "localhost:2,gpu1:2"});
  CHECK_FALSE(starts_ranks(unused, true));
  CHECK(unused.spec.env_compat.horovod);
  CHECK(unused.warnings.empty());
  CHECK_FALSE(starts_ranks(plan({"-np", "1", "-H", "gpu1:1,localhost:1"}), false));
  CHECK_THROWS_WITH(plan({"--ssh-args", " ", "-np", "1"}), Catch::Contains("--ssh-args"));
}

TEST_CASE("the option beats the environment's timeline, and -x beats the option", "[plan]") {
  Surroundings with = here();
  with.env.emplace_back("HVD_TIMELINE=env.json");
  const auto file = [&](std::vector<std::string> args) {
    args.emplace_back("true");
    return make_plan(parse_options(args), with).timeline.file;
  };
  CHECK(plan({}).timeline.file.empty());
  CHECK(file({}) == "env.json");
  CHECK(file({"--timeline-filename", "t.json"}) == "t.json");
  CHECK(file({"--timeline-filename", "t.json", "-x", "HVD_TIMELINE=x.json"}) == "x.json");
  CHECK(plan({"--timeline-filename", "DYNAMIC"}).timeline.dynamic);
  // That of the job whose rank this hvdrun is.
  with.env.emplace_back("HVD_JOB_ID=1");
  CHECK(file({}).empty());
  CHECK(file({"--timeline-filename", "t.json"}) == "t.json");
}

TEST_CASE("ranks learn what their tags leave of the terminal's columns", "[plan]") {
  Surroundings terminal = here();
  terminal.columns = 80;
  terminal.env.emplace_back("HVD_OUTPUT_COLUMNS=132");  // of the job whose rank this hvdrun is
  const auto columns = [](const Surroundings& where, std::vector<std::string> args) {
    args.emplace_back("true");
    const LaunchPlan made = make_plan(parse_options(args), where);
    const char* const value = find_variable(made.spec.env, "HVD_OUTPUT_COLUMNS");
    return std::string(value == nullptr ? "none" : value);
  };
  CHECK(columns(terminal, {"-np", "4"}) == "68");   // [3]<stdout>:
  CHECK(columns(terminal, {"-np", "11"}) == "67");  // [10]<stdout>:
  CHECK(columns(terminal, {"--tag-output", "off"}) == "80");
  CHECK(columns(terminal, {"--tag-output", "{host} ", "-H", "a:1,longer:1"}) == "73");
  CHECK(columns(terminal, {"--prefix-output-with-timestamp", "-np", "1"}) == "44");
  CHECK(columns(terminal, {"-x", "HVD_OUTPUT_COLUMNS=0"}) == "0");
  CHECK(columns(terminal, {"--output-filename", "out"}) == "none");
  CHECK(columns(terminal, {"--tag-output=" + std::string(80, '-')}) == "none");
  terminal.columns = 0;
  CHECK(columns(terminal, {"-np", "4"}) == "none");
}

}  // namespace
}  // namespace hvdrun
