// The agent's side of its workers' lines, and workers that are stepped by hand.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/net/unix_stream.h"
#include "tests/catch.h"
#include "worker/agent/worker_server.h"

namespace hvdrun {

struct Worker {
  std::shared_ptr<FrameChannel> channel;
  std::vector<Frame> frames;
  std::optional<std::error_code> closed;

  template <class M>
  std::optional<M> last() const {
    for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
      if (it->type != M::kType) continue;
      M message;
      if (!decode(it->payload, message)) return message;
    }
    return std::nullopt;
  }
};

// Ranks 4 and 5 of 8 live here.
struct WorkersFixture {
  explicit WorkersFixture(bool elastic = false) {
    WorkerServerOptions options;
    options.elastic = elastic;
    options.job_id = "job";
    options.name = "@hvdrun-test-" + std::to_string(::getpid());
    options.epoch = 1;
    options.usable_cores = 2;
    RankPlace here{.rank = 4, .local_size = 2, .cross_rank = 2, .cross_size = 4, .size = 8};
    options.ranks = {here};
    here.rank = 5;
    here.local_rank = 1;
    here.cross_rank = 1;
    here.cross_size = 3;
    options.ranks.push_back(here);
    options.send_up = [this](const std::string& bytes) {
      FrameDecoder decoder;
      decoder.feed(bytes);
      std::error_code ec;
      up.push_back(decoder.next(ec).value());
    };
    options.slot_died = [this](std::uint32_t slot) { died.push_back(slot); };
    options.timeline_batch = [this](const TimelineBatch& batch) { batches.push_back(batch); };
    options.timeline_control = [this](const TimelineControl& said) { controls.push_back(said); };
    options.stall_warning = 60'000;
    options.stall_shutdown = 90'000;
    options.surveyed = [this](HostSurvey::Answer answer) { surveyed = std::move(answer); };
    options.rank_started = [this](pid_t pid) {
      return pid == ::getpid() ? own_rank : std::nullopt;
    };
    name = options.name;
    server.emplace(io, std::move(options));
  }
  void connect(Worker& worker) {
    boost::asio::local::stream_protocol::socket socket(io);
    socket.connect(unix_endpoint(name));
    worker.channel =
        std::make_shared<FrameChannel>(make_unix_stream(io, UniqueFd(socket.release())));
    worker.channel->start([&worker](Frame frame) { worker.frames.push_back(std::move(frame)); },
                          [&worker](std::error_code ec) { worker.closed = ec; });
  }
  void join(Worker& worker, std::uint32_t rank, std::string layout = {}) {
    connect(worker);
    Hello hello;
    hello.role = Role::worker;
    hello.job_id = "job";
    worker.channel->send(hello);
    worker.channel->send(WorkerJoin{rank, 1, std::move(layout)});
    // A welcome or a refusal comes; where the machine is slow it takes longer.
    for (int tries = 0; tries < 100 && (tries == 0 || worker.frames.empty()); ++tries) settle();
  }
  void settle(std::chrono::milliseconds time = std::chrono::milliseconds(30)) {
    io.restart();
    io.run_for(time);
  }
  template <class M>
  std::vector<M> take_up() {
    std::vector<M> found;
    for (const Frame& frame : up) {
      M message;
      if (frame.type == M::kType && !decode(frame.payload, message)) found.push_back(message);
    }
    up.clear();
    return found;
  }

  boost::asio::io_context io{1};
  std::string name;
  std::optional<std::uint32_t> own_rank;  // that this process has been started as
  std::vector<Frame> up;
  std::vector<TimelineBatch> batches;
  std::vector<TimelineControl> controls;
  std::vector<std::uint32_t> died;  // slots
  std::optional<HostSurvey::Answer> surveyed;
  std::optional<WorkerServer> server;
  Worker a;
  Worker b;
  Worker c;
};

}  // namespace hvdrun
