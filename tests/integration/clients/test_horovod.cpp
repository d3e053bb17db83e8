// The rendezvous of Horovod programs: members that behave as Horovod's library does, started by
// hvdrun.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <signal.h>
#include <sstream>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

namespace fs = std::filesystem;

std::string horovod_client() { return build_path("tests/integration/programs/horovod_client"); }

// Every member says that it is through, and that no request of it was lost.
void check_members(const RunResult& result, int size, int rounds) {
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  for (int rank = 0; rank < size; ++rank) {
    const std::string line = "member " + std::to_string(rank) + " of " + std::to_string(size) +
                             ": " + std::to_string(rounds) + " rounds, 0 retries\n";
    CAPTURE(line);
    CHECK(result.out.find(line) != std::string::npos);
  }
}

// Local addresses (hexadecimal) of the TCP sockets on which this process listens.
std::vector<std::string> listening(pid_t pid) {
  std::set<std::string> sockets;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code ec;
    sockets.insert(fs::read_symlink(entry.path(), ec));
  }
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string word[10];
      for (std::string& w : word) words >> w;
      if (word[3] == "0A" && sockets.contains("socket:[" + word[9] + "]")) found.push_back(word[1]);
    }
  }
  return found;
}

TEST_CASE("members find each other in all three contexts, again and again", "[horovod]") {
  // Three hosts of different sizes, so that the cross contexts differ too.
  check_members(
      hvdrun({"--transport", "local", "-H", "a:3,b:1,c:2", horovod_client(), "member", "5"}), 6, 5);
}

TEST_CASE("two names of this machine are two hosts to members", "[horovod]") {
  check_members(hvdrun({"-H", "localhost:2,127.0.0.1:2", horovod_client(), "member", "2"}), 4, 2);
  const RunResult places = hvdrun(
      {"-H", "localhost:2,127.0.0.1:2", "--tag-output", "off", "sh", "-c",
       "echo $HOROVOD_RANK $HOROVOD_HOSTNAME $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE "
       "$HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE $HVD_HOSTNAME $HVD_LOCAL_RANK/$HVD_LOCAL_SIZE"});
  for (const char* line :
       {"0 localhost 0/2 0/2 localhost 0/4\n", "1 localhost 1/2 0/2 localhost 1/4\n",
        "2 127.0.0.1 0/2 1/2 localhost 2/4\n", "3 127.0.0.1 1/2 1/2 localhost 3/4\n"})
    CHECK(places.out.find(line) != std::string::npos);
  CHECK(places.err.empty());
}

TEST_CASE("a single member meets nobody, with an empty value", "[horovod]") {
  check_members(hvdrun({"-np", "1", horovod_client(), "member", "3"}), 1, 3);
}

TEST_CASE("64 members find each other though clients vanish in between", "[horovod]") {
  check_members(hvdrun({"-np", "64", horovod_client(), "member", "1", "rude"}), 64, 1);
}

TEST_CASE("a large job's members find each other and no request is lost", "[horovod]") {
  // 512 at full length: 750,000 requests, 37 GB of addresses.
  const std::string hosts = std::to_string(soak_count(64) == 64 ? 64 : 16);
  std::string list;
  for (int host = 0; host < std::stoi(hosts); ++host)
    list += (host > 0 ? ",h" : "h") + std::to_string(host) + ":8";
  const RunResult result =
      hvdrun({"--transport", "local", "-H", list, horovod_client(), "crowd", hosts, "8", "90"},
             {.limit = std::chrono::seconds(120)});
  std::cout << result.out;
  CHECK(result.exit_code == 0);
  CHECK(result.out.find(" 0 lost, ") != std::string::npos);
}

TEST_CASE("a member that never comes to init is named, not the first who waited", "[horovod]") {
  const auto with = [](const std::string& rank_1) {
    return hvdrun(
        {"-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=1", "-np", "3", "sh", "-c",
         "[ $HOROVOD_RANK = 1 ] && " + rank_1 + "; exec " + horovod_client() + " member"});
  };
  const RunResult never = with("exec sleep 100");
  CHECK(never.exit_code == 80);
  CHECK(never.err.find("rank 1 never reached hvd.init; the others waited there") !=
        std::string::npos);
  const RunResult early = with("exit 0");
  CHECK(early.exit_code == 81);
  CHECK(early.err.find("rank 1 on localhost") != std::string::npos);
  CHECK(std::regex_search(early.err,
                          std::regex("because waited for in hvd\\.init by rank (0|2|0, 2)\n")));
}

// No library says which collective a Horovod rank waits in; the kernel says what its process does.
TEST_CASE("of a Horovod program that hangs, a status tells what each rank is in", "[horovod]") {
  Background job({.args = {build_path("hvdrun"), "-np", "3", horovod_client(), "stall"}});
  for (const char* rank : {"0", "1", "2"})
    job.wait_for_output("[" + std::string(rank) + "]<stdout>:met in ", std::chrono::seconds(20));
  const std::string said = job.output();
  const std::string id = said.substr(said.find("met in ") + 7, 8);
  std::ifstream own("/proc/self/stack");
  std::string frame;
  const bool shown = std::getline(own, frame) && !frame.empty();
  if (!shown) WARN("left out: this kernel shows no system call and no stack");
  const auto line_of = [&](int rank, const std::string& process) {
    return "rank " + std::to_string(rank) + " on localhost: started, pid \\d+ " + process +
           ", .* of CPU";
  };
  const std::string stack = "\n      kernel stack: \\w+( < \\w+)*";
  const std::string reads =
      line_of(2, std::string("sleeping( in \\w+)?") +
                     (shown ? ", system call read of pipe:\\[\\d+\\]" : "(, system call [^,]*)?"));
  // Those that wait for it look for the end of their collective all the time.
  const std::vector<std::string> parts = {line_of(0, "running"), line_of(1, "running"),
                                          shown ? reads + ".*" + stack : reads};
  const auto tells_all = [&](const std::string& text) {
    return std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return std::regex_search(text, std::regex(part));
    });
  };
  // They have said that they met, and are on their way into their waits.
  RunResult status = hvdrun({"status", id});
  for (int i = 0; i < 100 && !tells_all(status.out); ++i) status = hvdrun({"status", id});
  CAPTURE(status.out, status.err);
  CHECK(tells_all(status.out));
  // And in the job's own terminal.
  kill(job.pid(), SIGQUIT);
  job.wait_for_output("rank 2 on localhost: started, pid ", std::chrono::seconds(20));
  const std::string asked =
      job.wait_for_output(shown ? "pipe_read < " : " of CPU, ", std::chrono::seconds(20));
  CAPTURE(asked);
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(std::chrono::seconds(20)) == 128 + SIGTERM);
}

TEST_CASE("the store listens on loopback only, and only when it is wanted", "[horovod]") {
  const auto marker = fresh_marker();
  const auto coordinator_listens = [&](std::vector<std::string> options) {
    options.insert(options.begin(), build_path("hvdrun"));
    options.insert(options.end(),
                   {"-np", "1", "sh", "-c",
                    "echo \"$HOROVOD_GLOO_RENDEZVOUS_PORT,$HOROVOD_RANK.\"; exec sleep 60"});
    Background job(
        {.args = options, .env = {marker, {"HOROVOD_RANK", "9"}, {"HOROVOD_ELASTIC", "1"}}});
    const std::string said = job.wait_for_output(".\n", std::chrono::seconds(20));
    std::vector<std::string> addresses;
    for (const ProcessInfo& info : processes_with(marker.first + "=" + marker.second))
      if (info.name == "hvd-coordinator") addresses = listening(info.pid);
    kill(job.pid(), SIGTERM);
    CHECK(job.wait(std::chrono::seconds(20)) == 128 + SIGTERM);
    return std::pair(said.substr(said.find(':') + 1), addresses);
  };
  const auto [said, addresses] = coordinator_listens({});
  REQUIRE(addresses.size() == 1);
  CHECK(addresses[0].starts_with("0100007F:"));
  const unsigned long port = std::strtoul(addresses[0].c_str() + 9, nullptr, 16);
  CHECK(said == std::to_string(port) + ",0.\n");
  const auto [said_without, addresses_without] = coordinator_listens({"--env-compat", "torch"});
  CHECK(addresses_without.empty());
  CHECK(said_without == ",.\n");  // nor those of an outer job
}

TEST_CASE("members of several hosts find the store at their own agent", "[horovod]") {
  const auto marker = fresh_marker();
  Background job({.args = {build_path("hvdrun"), "--transport", "local", "-H", "a:1,b:2",
                           "--tag-output", "off", "sh", "-c",
                           "echo $HOROVOD_GLOO_RENDEZVOUS_ADDR:$HOROVOD_GLOO_RENDEZVOUS_PORT."
                           "$HOROVOD_HOSTNAME.; exec sleep 60"},
                  .env = {marker}});
  job.wait_for_output(".a.\n", std::chrono::seconds(20));
  std::istringstream text(job.wait_for_output(".b.\n", std::chrono::seconds(20)));
  std::set<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.insert(line);
  CHECK(lines.size() == 2);
  // The ports that each process listens at, as the lines say it.
  std::set<std::string> expected;
  for (const ProcessInfo& info : processes_with(marker.first + "=" + marker.second)) {
    if (info.name != "hvd-agent" && info.name != "hvd-coordinator") continue;
    for (const std::string& address : listening(info.pid)) {
      CHECK(info.name == "hvd-agent");
      REQUIRE(address.starts_with("0100007F:"));
      const auto port = std::to_string(std::strtoul(address.c_str() + 9, nullptr, 16));
      for (const char* host : {"a", "b"})
        if (const auto line = "127.0.0.1:" + port + "." + host + "."; lines.contains(line))
          expected.insert(line);
    }
  }
  CHECK(lines == expected);
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(std::chrono::seconds(20)) == 128 + SIGTERM);
}

TEST_CASE("a member of another host that never comes to init is named", "[horovod]") {
  const RunResult early =
      hvdrun({"--transport", "local", "-H", "a:1,b:2", "sh", "-c",
              "[ $HOROVOD_RANK = 1 ] && exit 0; exec " + horovod_client() + " member"});
  CHECK(early.exit_code == 81);
  CHECK(early.err.find("rank 1 on b") != std::string::npos);
  CHECK(std::regex_search(early.err,
                          std::regex("because waited for in hvd\\.init by rank (0|2|0, 2)\n")));
}

TEST_CASE("--env-compat leaves out the variables of other launchers", "[horovod]") {
  const std::string script = R"(echo ${HOROVOD_SIZE-none} ${WORLD_SIZE-none} \
${OMPI_COMM_WORLD_SIZE-none} $HVD_SIZE)";
  const auto names = [&](const std::string& list) {
    return hvdrun({"--env-compat", list, "-np", "1", "sh", "-c", script}).out;
  };
  CHECK(names("horovod") == "[0]<stdout>:1 none none 1\n");
  CHECK(names("torch") == "[0]<stdout>:none 1 none 1\n");
  CHECK(names("mpi-ids") == "[0]<stdout>:none none 1 1\n");
  CHECK(names("horovod,torch,mpi-ids") == "[0]<stdout>:1 1 1 1\n");
}

}  // namespace
}  // namespace hvdrun::test
