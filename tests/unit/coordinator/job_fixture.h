// A job on two hosts (a:2, b:1) that is stepped by hand.
#pragma once

#include <chrono>
#include <signal.h>
#include <system_error>
#include <utility>
#include <vector>

#include "coordinator/job.h"
#include "tests/catch.h"

namespace hvdrun {

struct JobFixture {
  using Target = Job::Action::Target;

  explicit JobFixture(const JobSpec& spec = make_spec()) : job(spec, now) {}

  static JobSpec make_spec() {
    JobSpec spec;
    spec.job_id = "job";
    spec.ranks = {{{"a", 2}, {"b", 2}}, 3};
    spec.argv = {"train"};
    spec.env = {"A=b"};
    spec.cwd = "/tmp";
    spec.env_compat.mpi_ids = false;
    spec.horovod_port = 5999;
    spec.start_timeout = std::chrono::seconds(30);
    spec.ladder = {{SIGTERM, 5000}};
    spec.init_timeout = std::chrono::seconds(60);
    return spec;
  }

  struct Sent {
    Target target;
    std::uint32_t host;
    Frame frame;
  };
  std::vector<Sent> take() {
    std::vector<Sent> sent;
    for (auto& action : job.take_actions()) {
      FrameDecoder decoder;
      decoder.feed(action.frame);
      if (action.rest) decoder.feed(*action.rest);
      std::error_code ec;
      sent.push_back({action.target, action.host, decoder.next(ec).value()});
    }
    return sent;
  }
  // The messages of type M among what is sent now, to that target.
  template <class M>
  std::vector<std::pair<std::uint32_t, M>> take_all(Target target = Target::agent) {
    std::vector<std::pair<std::uint32_t, M>> found;
    for (const Sent& sent : take()) {
      if (sent.target != target || sent.frame.type != M::kType) continue;
      M message;
      REQUIRE_FALSE(decode(sent.frame.payload, message));
      found.emplace_back(sent.host, message);
    }
    return found;
  }
  template <class M>
  Errc from_agent(std::uint32_t host, const M& message, std::uint32_t epoch = 1) {
    return job.agent_frame(host, Frame{M::kType, epoch, encode(message)}, now);
  }
  template <class M>
  Errc from_driver(const M& message) {
    return job.driver_frame(Frame{M::kType, 0, encode(message)}, now);
  }
  void ready(std::uint32_t host, std::uint16_t port) {
    job.agent_connected(host);
    REQUIRE(from_agent(host, AgentReady{100 + host, 4, port, {}}) == Errc::ok);
  }
  void run() {
    ready(1, 5001);
    ready(0, 5000);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      REQUIRE(from_agent(rank / 2, RankStarted{rank, 1000 + rank}) == Errc::ok);
    take();
  }
  Errc exit(std::uint32_t rank, ExitKind kind, std::uint32_t value, bool after_kill = false) {
    return from_agent(rank / 2, RankExited{rank, 1000 + rank, kind, value, after_kill, false, {}});
  }

  TimePoint now{};
  Job job;
};

}  // namespace hvdrun
