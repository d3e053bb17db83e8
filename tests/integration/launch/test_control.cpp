// The job's TCP side as somebody sees it who does not have the key, and where the key is not.
#include <arpa/inet.h>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "common/wire/base_messages.h"
#include "common/wire/frame.h"
#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/openssl_server.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

// Loopback ports on which a process of the job listens, from /proc.
std::vector<int> listening_ports(const std::vector<ProcessInfo>& processes) {
  std::set<std::string> inodes;
  for (const auto& info : processes) {
    const RunResult links =
        run({.args = {"sh", "-c", "ls -l /proc/" + std::to_string(info.pid) + "/fd 2>/dev/null"}});
    std::istringstream words(links.out);
    for (std::string word; words >> word;)
      if (word.compare(0, 8, "socket:[") == 0) inodes.insert(word.substr(8, word.size() - 9));
  }
  std::vector<int> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string field[10];
    for (auto& f : field) fields >> f;
    if (field[3] == "0A" && inodes.count(field[9]) == 1)
      ports.push_back(std::stoi(field[1].substr(9), nullptr, 16));
  }
  return ports;
}

struct RunningJob {
  explicit RunningJob(const std::string& control)
      : marker(fresh_marker()),
        tag(marker.first + "=" + marker.second),
        // Without Horovod's store, whose port has no secret.
        job({.args = {build_path("hvdrun"), "--env-compat", "torch", "--control", control,
                      "--verbose", "-np", "2", "sh", "-c", "echo up; exec sleep 300"},
             .env = {marker}}) {
    // Both ranks: the lines come in any order, and a shell may still be about to become a sleep.
    job.wait_for_output("[0]<stdout>:up", 10s);
    job.wait_for_output("[1]<stdout>:up", 10s);
    processes = wait_for_processes(
        tag,
        {{"hvdrun", 1}, {"hvd-coordinator", 1}, {"hvd-guard", 1}, {"hvd-agent", 1}, {"sleep", 2}},
        10s);
  }
  std::pair<std::string, std::string> marker;
  std::string tag;
  Background job;
  std::vector<ProcessInfo> processes;
};

TEST_CASE("the whole job runs over TCP with TLS", "[control]") {
  const RunResult result = hvdrun({"--control", "tcp", "-np", "4", worker_probe(), "collectives"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("wrong key and no key are refused, and the job goes on", "[control]") {
  RunningJob running("tcp");
  const auto ports = listening_ports(running.processes);
  REQUIRE(ports.size() >= 2);  // coordinator and viewer
  for (const int port : ports) {
    CAPTURE(port);
    const std::string client =
        "echo hello | timeout 5 openssl s_client -connect 127.0.0.1:" + std::to_string(port) + " ";
    const auto s_client = [&](const char* options) {
      return run({.args = {"sh", "-c", client + options}});
    };
    const std::string other_key = "-tls1_3 -psk_identity 00 -psk " + std::string(64, 'a');
    const RunResult wrong_key = s_client(other_key.c_str());
    CHECK(wrong_key.exit_code != 0);
    const RunResult no_key = s_client("-tls1_3");
    CHECK(no_key.exit_code != 0);
    const RunResult old_version = s_client("-tls1_2");
    CHECK(old_version.exit_code != 0);
  }
  running.job.wait_for_output("refused a connection from 127.0.0.1", 5s);
  // Plain bytes, and a connection that says nothing.
  const int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<std::uint16_t>(ports[0]));
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(plain, reinterpret_cast<sockaddr*>(&target), sizeof target) == 0);
  CHECK(write(plain, "GET / HTTP/1.0\r\n\r\n", 18) == 18);
  char answer[64];
  while (read(plain, answer, sizeof answer) > 0) {
  }
  close(plain);
  CHECK(processes_with(running.tag).size() == running.processes.size());
}

TEST_CASE("an agent names who answers and does not hold the job's key", "[control]") {
  const bool relay = GENERATE(false, true);
  CAPTURE(relay);
  OpensslServer stranger(OpensslServer::strangers("0123").front().options);
  Bootstrap bootstrap;
  bootstrap.job_id = "0123";
  bootstrap.secret = std::string(32, 'k');
  bootstrap.host_name = "node2";
  bootstrap.control.addresses = bootstrap.output.addresses = {stranger.address(), "127.0.0.1:1"};
  bootstrap.lease_ms = 15'000;
  bootstrap.relay = relay;
  bootstrap.dial_ms = 10'000;
  // The lease, which this holds.
  const TempFolder folder;
  const std::string fifo = folder.path() + "/lease";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const UniqueFd lease(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  const std::string frame = encode_frame(bootstrap);
  REQUIRE(::write(lease.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
  Background agent(
      {.args = {"sh", "-c", "exec \"$0\" guard < \"$1\"", build_path("hvd-agent"), fifo}});
  const std::string who = "what answers at " + stranger.address() + " does not hold this job's key";
  if (relay) {
    agent.wait_for_output("hvdrun: relay\n", 10s);
    CHECK(agent.output().find("hvd-agent on node2: " + who + ": passed over\n") == 0);
  } else {
    agent.wait_for_output("Connection refused", 10s);
    CHECK(agent.wait(10s) == 1);
    CHECK(agent.wait_for_output("\n", 1s).find("hvd-agent on node2: cannot reach the viewer: ") ==
          0);
    CHECK(agent.output().find(who) != std::string::npos);
  }
  CHECK(stranger.wait_for({"ERROR", "0123"}));
  CAPTURE(stranger.heard());
  CHECK(stranger.heard() == "ClientHello Alert");
}

TEST_CASE("an agent waits for its job as long as somebody may tell it", "[control]") {
  const std::string no_job = "hvd-agent: no job came on stdin";
  const std::string agent = build_path("hvd-agent");
  // By hand: at a terminal where nobody types (the pipe is held open), and without input.
  const TempFolder folder;
  const std::string fifo = folder.path() + "/keys";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const UniqueFd keys(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  const RunResult seen =
      run({.args = {"sh", "-c", "exec script -qec \"$0 guard\" /dev/null <\"$1\"", agent, fifo},
           .limit = 5s});
  CHECK(seen.exit_code == 1);
  CHECK(seen.out.find(no_job) != std::string::npos);
  const RunResult none = run({.args = {"sh", "-c", "\"$0\" guard </dev/null", agent}, .limit = 5s});
  CHECK(none.exit_code == 1);
  CHECK(none.err.find(no_job) != std::string::npos);
  // A launcher that is busy with other hosts.
  if (soak_count(100) < 100) {
    WARN("left out below HVD_TEST_PERCENT=100: a launcher that says nothing for 12 s");
    return;
  }
  const RunResult busy =
      run({.args = {"sh", "-c", "sleep 15 | timeout 12 \"$0\" guard", agent}, .limit = 30s});
  CHECK(busy.exit_code == 124);
  CHECK(busy.err.find(no_job) == std::string::npos);
}

TEST_CASE("over Unix sockets nothing listens on the network", "[control]") {
  RunningJob running("unix");
  CHECK(listening_ports(running.processes).empty());
}

TEST_CASE("the secret is in no argv and in no environment", "[control]") {
  // The job id is public; nothing else of 32 bytes or 64 digits may be seen.
  RunningJob running("tcp");
  for (const auto& info : running.processes) {
    CAPTURE(info.name, info.cmdline);
    CHECK(info.cmdline.find("secret") == std::string::npos);
    CHECK(info.environ.find("SECRET") == std::string::npos);
    for (const std::string* text : {&info.cmdline, &info.environ}) {
      std::size_t digits = 0;
      for (const char c : *text) {
        digits = std::isxdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
        if (digits == 64) break;
      }
      CHECK(digits < 64);
    }
  }
}

}  // namespace
}  // namespace hvdrun::test
