// Thousands of agents against one coordinator, over TLS on loopback: what it costs the coordinator.
//
//   swarm AGENTS SLOTS [PROCESSES [SECONDS [elastic]]]
//
// The coordinator is the one that hvdrun starts, forked the same way. The agents are spread over
// PROCESSES processes (4) of one thread each, because a process may have only so many descriptors
// open (ulimit -Hn). SECONDS (3) of nothing but heartbeats come before the end. Prints one line of
// JSON: seconds of each phase and of the coordinator's CPU until its end, KiB of its memory.
// elastic: then a host is lost, and after that a hundred join at once. Each phase is over when all
// agents have heard of the new epoch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <time.h>

#include "common/base/descriptor_limit.h"
#include "common/base/random.h"
#include "common/net/unix_stream.h"
#include "coordinator/daemon.h"
#include "tests/bench/fake_agents.h"

extern char** environ;

namespace hvdrun::bench {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Milestone = FakeAgents::Milestone;

constexpr std::chrono::seconds kLimit{300};  // of the whole run
constexpr char kJoin = 'j';
constexpr char kExit = 'x';
constexpr char kEnter = 'n';
constexpr char kLose = 'l';
constexpr char kCome = 'c';  // newcomers
constexpr std::uint32_t kNewcomers = 100;
constexpr char kTrouble = '!';

struct Job {
  JobSpec spec;
  std::string secret;
  std::string address;
};

JobSpec make_spec(std::uint32_t agents, std::uint32_t slots, bool elastic) {
  JobSpec spec;
  spec.job_id = to_hex(random_bytes(16));
  std::vector<HostSlots> hosts;
  for (std::uint32_t i = 0; i < agents; ++i) hosts.push_back({"host" + std::to_string(i), slots});
  spec.ranks = {std::move(hosts), agents * slots};
  spec.argv = {"./train"};
  for (char** entry = environ; *entry != nullptr; ++entry) spec.env.emplace_back(*entry);
  spec.cwd = "/";
  spec.start_timeout = kLimit;
  spec.lease = std::chrono::seconds(60);  // one machine has to play all agents
  spec.init_timeout = kLimit;
  if (elastic) {
    spec.min_np = 1;
    spec.max_np = limits::kMaxRanks;
    spec.elastic_timeout = kLimit;
  }
  return spec;
}

// A process full of agents; our end of its line.
struct Player {
  pid_t pid = -1;
  UniqueFd line;
};

[[noreturn]] void play(const Job& job, std::uint32_t first, std::uint32_t count, UniqueFd line) {
  const bool is_new = first >= job.spec.hosts().size();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  raise_descriptor_limit();
  asio::io_context io(1);
  asio::local::stream_protocol::socket socket(io, asio::local::stream_protocol(), line.release());
  const auto say = [&socket](char word) {
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(&word, 1), ignored);
  };
  FakeAgents agents(
      io, {job.spec.job_id, job.secret, job.address, first, count, 64, job.spec.min_np > 0},
      [&](Milestone milestone) { say(static_cast<char>(milestone)); },
      [&](const std::string& trouble) {
        std::fprintf(stderr, "swarm: %s\n", trouble.c_str());
        say(kTrouble);
        ::_exit(1);
      });
  char word = 0;
  const std::function<void()> listen = [&] {
    asio::async_read(socket, asio::buffer(&word, 1), [&](const auto& ec, std::size_t) {
      if (ec) return io.stop();
      switch (word) {
        case kJoin:
          agents.join();
          break;
        case kEnter:
          agents.enter_elastic();
          break;
        case kLose:
          agents.lose_one();
          break;
        case kCome:
          agents.connect();
          break;
        default:
          agents.exit();
      }
      listen();
    });
  };
  listen();
  if (!is_new) agents.connect();
  io.run();
  ::_exit(0);
}

double cpu_seconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return -1;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

long memory_peak_kib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return -1;
}

// The driver's part: hears how far all are, tells them to go on, and notes what it cost.
class Measure {
 public:
  Measure(asio::io_context& io, pid_t coordinator, UniqueFd line, std::vector<Player>& players,
          const JobSpec& spec, std::chrono::seconds beating)
      : io_(io), coordinator_(coordinator), spec_(spec), beating_(beating), pause_(io), limit_(io) {
    channel_ = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(line)));
    channel_->start([this](const Frame& frame) { on_frame(frame); },
                    [this](std::error_code) {
                      if (!ended_) fail("the coordinator is gone");
                    });
    Hello hello;
    hello.role = Role::driver;
    hello.job_id = spec.job_id;
    channel_->send(hello);
    here_ = players.size() - (spec.min_np > 0 ? 1 : 0);  // the last one plays newcomers
    for (Player& player : players) {
      lines_.push_back(std::make_unique<Line>(
          Line{{io, asio::local::stream_protocol(), player.line.release()}, 0}));
      listen(*lines_.back());
    }
    limit_.expires_after(kLimit);
    limit_.async_wait([this](const auto& ec) {
      if (!ec) fail("it took longer than " + std::to_string(kLimit.count()) + " s");
    });
  }

  // One line of JSON. Throws std::runtime_error when the job did not go as it should.
  std::string result() const {
    if (!trouble_.empty()) throw std::runtime_error(trouble_);
    std::string text = "{\"agents\": " + std::to_string(spec_.hosts().size()) +
                       ", \"ranks\": " + std::to_string(spec_.np());
    for (const Phase& phase : phases_) {
      char numbers[200];
      std::snprintf(numbers, sizeof numbers,
                    ", \"%s\": {\"wall\": %.3f, \"cpu\": %.3f, \"kib\": %ld}", phase.name,
                    phase.wall, phase.cpu, phase.kib);
      text += numbers;
    }
    return text + "}";
  }

 private:
  struct Line {
    asio::local::stream_protocol::socket socket;
    char word;
  };
  struct Phase {
    const char* name;
    double wall;  // seconds since the beginning
    double cpu;   // seconds of the coordinator so far
    long kib;     // its peak so far
  };

  void note(const char* name) {
    const std::chrono::duration<double> wall = Clock::now() - begin_;
    phases_.push_back(
        {name, wall.count(), cpu_seconds(coordinator_), memory_peak_kib(coordinator_)});
  }
  void fail(const std::string& why) {
    if (trouble_.empty()) trouble_ = why;
    io_.stop();
  }
  void tell(Line& line, char word) {
    boost::system::error_code ignored;
    asio::write(line.socket, asio::buffer(&word, 1), ignored);
  }
  void tell_all(char word) {
    for (std::size_t i = 0; i < here_; ++i) tell(*lines_[i], word);
  }
  void listen(Line& line) {
    asio::async_read(line.socket, asio::buffer(&line.word, 1), [this, &line](const auto& ec, auto) {
      if (ec || line.word == kTrouble) return ended_ ? void() : fail("a process of agents failed");
      on_milestone(static_cast<Milestone>(line.word));
      listen(line);
    });
  }
  void on_milestone(Milestone milestone) {
    std::size_t& count = milestone == Milestone::released  ? released_
                         : milestone == Milestone::fetched ? fetched_
                         : milestone == Milestone::begun   ? begun_
                                                           : gone_;
    if (++count < here_) return;
    if (spec_.min_np > 0) return on_elastic(milestone);
    if (milestone == Milestone::released) return note("released");
    if (milestone == Milestone::ended) return io_.stop();
    note("fetched");
    pause_.expires_after(beating_);
    pause_.async_wait([this](const auto&) {
      note("heartbeats");
      tell_all(kExit);
    });
  }
  // released, a host lost, begun, released, hosts listed, begun.
  void on_elastic(Milestone milestone) {
    if (milestone == Milestone::begun) {
      begun_ = 0;
      note(epochs_ == 1 ? "lost" : "grown");
      if (here_ < lines_.size() || epochs_ == 1) return;
      if (epochs_ != 2) fail("the newcomers took " + std::to_string(epochs_ - 1) + " epochs");
      ended_ = true;
      return io_.stop();
    }
    released_ = 0;
    if (epochs_ == 0) {
      note("released");
      tell_all(kEnter);
    }
    // Whatever was said before has been heard by then.
    pause_.expires_after(beating_);
    pause_.async_wait([this](const auto&) {
      note(epochs_ == 0 ? "losing" : "growing");
      epochs_ == 0 ? tell(*lines_.front(), kLose) : grow();
    });
  }
  void grow() {
    HostsListed listed;
    for (std::uint32_t host = 1; host < spec_.hosts().size() + kNewcomers; ++host)
      listed.hosts.push_back({host, "host" + std::to_string(host), slots(), false});
    channel_->send(listed);
    here_ = lines_.size();
  }
  std::uint32_t slots() const { return spec_.hosts().front().slots; }

  void on_frame(const Frame& frame) {
    if (frame.type == MessageType::epoch_begun) ++epochs_;
    if (frame.type == MessageType::reopen_host && ++opened_ == kNewcomers)
      tell(*lines_.back(), kCome);
    if (frame.type == MessageType::job_progress && !has_begun_) {
      JobProgress progress;
      if (decode(frame.payload, progress)) return fail("a progress cannot be read");
      has_begun_ = progress.joined == spec_.np();
      if (has_begun_) return note("joined");
      if (progress.started < spec_.np()) return note("ready");
      note("started");
      tell_all(kJoin);
    } else if (frame.type == MessageType::job_ended) {
      JobEnded verdict;
      if (decode(frame.payload, verdict) || verdict.cause != EndCause::success)
        return fail("the job failed: " + verdict.text);
      note("exited");
      ended_ = true;
    } else if (frame.type == MessageType::log && spec_.min_np == 0) {
      Log log;
      if (!decode(frame.payload, log)) std::fprintf(stderr, "swarm: %s\n", log.text.c_str());
    }
  }

  asio::io_context& io_;
  pid_t coordinator_;
  const JobSpec& spec_;
  std::chrono::seconds beating_;
  asio::steady_timer pause_;
  asio::steady_timer limit_;
  std::shared_ptr<FrameChannel> channel_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<Phase> phases_;
  Clock::time_point begin_ = Clock::now();
  std::size_t here_ = 0;  // processes of agents that are in the job
  std::size_t released_ = 0;
  std::size_t fetched_ = 0;
  std::size_t begun_ = 0;
  std::size_t gone_ = 0;
  std::uint32_t epochs_ = 0;  // after the first
  std::uint32_t opened_ = 0;
  bool has_begun_ = false;
  bool ended_ = false;
  std::string trouble_;
};

std::string run(std::uint32_t agents, std::uint32_t slots, std::uint32_t processes,
                std::chrono::seconds beating, bool elastic) {
  Job job;
  job.spec = make_spec(agents, slots, elastic);
  job.secret = random_bytes(kSecretBytes);
  ServerOptions options;
  options.spec = job.spec;
  options.secret = job.secret;
  {
    // Gone before anything forks.
    asio::io_context io;
    tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    job.address = endpoint_text(acceptor.local_endpoint());
    options.listener.reset(acceptor.release());
  }
  auto line = make_socket_pair();
  options.driver = std::move(line.second);
  const Process coordinator = start_coordinator(std::move(options));
  std::vector<Player> players(processes + (elastic ? 1 : 0));
  for (std::uint32_t i = 0; i < players.size(); ++i) {
    auto pair = make_socket_pair();
    const auto first = static_cast<std::uint32_t>(std::uint64_t{agents} * i / processes);
    const auto last = i == processes
                          ? agents + kNewcomers
                          : static_cast<std::uint32_t>(std::uint64_t{agents} * (i + 1) / processes);
    players[i].pid = ::fork();
    if (players[i].pid < 0) throw std::runtime_error("fork failed");
    if (players[i].pid == 0) {
      line.first.reset();
      for (std::uint32_t other = 0; other < i; ++other) players[other].line.reset();
      pair.first.reset();
      play(job, first, last - first, std::move(pair.second));
    }
    players[i].line = std::move(pair.first);
  }
  std::string text;
  {
    asio::io_context io(1);
    Measure measure(io, coordinator.pid, std::move(line.first), players, job.spec, beating);
    io.run();
    text = measure.result();
  }
  // With our ends of the lines gone they all leave.
  for (const Player& player : players) ::waitpid(player.pid, nullptr, 0);
  ::waitpid(coordinator.pid, nullptr, 0);
  return text;
}

std::uint32_t number(const char* text, std::uint32_t most) {
  const int value = std::stoi(text);
  if (value < 1 || static_cast<std::uint32_t>(value) > most)
    throw std::runtime_error(std::string(text) + " is not a number from 1 to " +
                             std::to_string(most));
  return static_cast<std::uint32_t>(value);
}

}  // namespace
}  // namespace hvdrun::bench

int main(int argc, char** argv) {
  if (argc < 3 || argc > 6) {
    std::fprintf(stderr, "usage: swarm AGENTS SLOTS [PROCESSES [SECONDS [elastic]]]\n");
    return 64;
  }
  ::signal(SIGPIPE, SIG_IGN);
  try {
    using hvdrun::bench::number;
    const auto agents = number(argv[1], 100'000);
    const auto slots = number(argv[2], 1024);
    const auto processes = std::min(agents, argc > 3 ? number(argv[3], 64) : 4U);
    const std::chrono::seconds beating(argc > 4 ? number(argv[4], 60) : 3U);
    std::printf("%s\n", hvdrun::bench::run(agents, slots, processes, beating, argc > 5).c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "swarm: %s\n", e.what());
    return 1;
  }
}
