// A job of real processes on one host: the ranks are forked, the parent is their agent, in one
// thread, so that nothing but libhvd has threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/client/fake_agent.h"
#include "worker/hvd/client/worker_environment.h"

namespace hvdrun::test {

struct ProcessResult {
  int status = -1;   // of waitpid
  std::string text;  // what the body returned, or the error it threw
};

class MiniJob {
 public:
  using Body = std::function<std::string(int rank)>;

  // Knobs of the agent.
  std::uint32_t hosts = 1;         // what the topology says
  int agent_dies_after_ms = -1;    // closes all lines so long after the fence
  std::chrono::seconds limit{60};  // ranks that run longer are killed
  int ranks_to_start = -1;         // fewer than size: the others never come
  // A rank gets this from the fence in place of rank 0's blob.
  std::function<std::string(std::uint32_t rank, const std::string& blob)> change_blob;
  std::map<std::string, std::string> environment;
  std::vector<std::string> blobs;  // rank 0's, of each fence
  // One rank's environment, besides.
  std::function<std::map<std::string, std::string>(int rank)> environment_of;

  explicit MiniJob(int size) : size_(size) {}

  std::vector<ProcessResult> run(const Body& body) {
    name_ = fresh_socket_name();
    listener_ = listen_on(name_);
    const int started = ranks_to_start < 0 ? size_ : ranks_to_start;
    std::vector<ProcessResult> results(static_cast<std::size_t>(started));
    std::vector<pid_t> pids;
    std::vector<UniqueFd> pipes;
    for (int rank = 0; rank < started; ++rank) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
      const pid_t pid = ::fork();
      if (pid < 0) throw std::runtime_error("fork");
      if (pid == 0) {
        for (UniqueFd& other : pipes) other.reset();
        ::close(ends[0]);
        listener_.reset();
        child(rank, body, ends[1]);
      }
      ::close(ends[1]);
      pids.push_back(pid);
      pipes.emplace_back(ends[0]);
    }
    serve(pids, pipes, results);
    connections_.clear();
    return results;
  }

  // The ranks as threads of this process, each with an environment of its own.
  using ThreadBody = std::function<void(int rank, const EnvironmentLookup& lookup)>;
  std::vector<ProcessResult> run_threads(const ThreadBody& body) {
    name_ = fresh_socket_name();
    listener_ = listen_on(name_);
    std::vector<ProcessResult> results(static_cast<std::size_t>(size_));
    std::vector<UniqueFd> pipes;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
      pipes.emplace_back(ends[0]);
      threads.emplace_back([this, rank, &body, &result = results[static_cast<std::size_t>(rank)],
                            out = UniqueFd(ends[1])]() mutable {
        const auto variables = variables_of(rank);
        try {
          body(rank, [&](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            if (found == variables.end()) return std::nullopt;
            return found->second;
          });
          result.status = 0;
        } catch (const std::exception& error) {
          result.text = error.what();
        }
        out.reset();
      });
    }
    serve(std::vector<pid_t>(static_cast<std::size_t>(size_), 0), pipes, results);
    for (std::thread& thread : threads) thread.join();
    connections_.clear();
    return results;
  }

 private:
  struct Connection {
    std::unique_ptr<FakeAgentPeer> peer;
    FrameDecoder decoder;
    std::uint32_t rank = 0;
    bool joined = false;
    bool left = false;
  };

  std::map<std::string, std::string> variables_of(int rank) const {
    std::map<std::string, std::string> all{{"HVD_AGENT", name_},
                                           {"HVD_JOB_ID", std::string(32, 'c')},
                                           {"HVD_EPOCH", "1"},
                                           {"HVD_RANK", std::to_string(rank)},
                                           {"HVD_SIZE", std::to_string(size_)},
                                           {"HVD_LOCAL_RANK", std::to_string(rank)},
                                           {"HVD_LOCAL_SIZE", std::to_string(size_)},
                                           {"HVD_CROSS_RANK", "0"},
                                           {"HVD_CROSS_SIZE", "1"}};
    for (const auto& [name, value] : environment) all[name] = value;
    if (environment_of)
      for (const auto& [name, value] : environment_of(rank)) all[name] = value;
    return all;
  }

  [[noreturn]] void child(int rank, const Body& body, int out) {
    for (const auto& [name, value] : variables_of(rank))
      ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    std::string text;
    int code = 0;
    try {
      text = body(rank);
    } catch (const std::exception& error) {
      text = error.what();
      code = 1;
    }
    [[maybe_unused]] const ssize_t written = ::write(out, text.data(), text.size());
    std::_Exit(code);
  }

  void serve(const std::vector<pid_t>& pids, const std::vector<UniqueFd>& pipes,
             std::vector<ProcessResult>& results) {
    const auto give_up = std::chrono::steady_clock::now() + limit;
    std::size_t open = pipes.size();
    std::vector<bool> ended(pipes.size(), false);
    while (open > 0) {
      std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
      for (std::size_t i = 0; i < pipes.size(); ++i)
        polled.push_back({ended[i] ? -1 : pipes[i].get(), POLLIN, 0});
      const std::size_t lines = connections_.size();
      for (const Connection& connection : connections_)
        polled.push_back({connection.peer ? connection.peer->socket() : -1, POLLIN, 0});
      ::poll(polled.data(), polled.size(), dies_at_ ? 10 : 1000);
      if (dies_at_ && std::chrono::steady_clock::now() > *dies_at_) {
        for (Connection& connection : connections_) connection.peer.reset();
        dies_at_.reset();
        continue;
      }
      if (std::chrono::steady_clock::now() > give_up) {
        for (const pid_t pid : pids)
          if (pid > 0) ::kill(pid, SIGKILL);
      }
      for (std::size_t i = 0; i < lines; ++i)
        if (polled[1 + pipes.size() + i].revents != 0) read_line(connections_[i]);
      if (polled[0].revents != 0) {
        Connection connection;
        connection.peer = std::make_unique<FakeAgentPeer>(
            UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
        connections_.push_back(std::move(connection));
      }
      for (std::size_t i = 0; i < pipes.size(); ++i) {
        if (polled[1 + i].revents == 0) continue;
        char buffer[4096];
        const ssize_t count = ::read(pipes[i].get(), buffer, sizeof(buffer));
        if (count > 0) {
          results[i].text.append(buffer, static_cast<std::size_t>(count));
        } else {
          if (pids[i] > 0) ::waitpid(pids[i], &results[i].status, 0);
          ended[i] = true;
          --open;
        }
      }
    }
  }

  void read_line(Connection& connection) {
    char buffer[4096];
    const ssize_t count = ::recv(connection.peer->socket(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count <= 0) {
      connection.peer.reset();
      if (connection.joined && !connection.left)
        tell_lost({connection.rank, false, "its process ended"});
      return;
    }
    connection.decoder.feed({buffer, static_cast<std::size_t>(count)});
    std::error_code ec;
    while (connection.peer) {
      const std::optional<Frame> frame = connection.decoder.next(ec);
      if (!frame) break;
      on_frame(connection, *frame);
    }
  }

  template <class M>
  static M take(const Frame& frame) {
    M message;
    if (decode(frame.payload, message)) throw std::runtime_error("damaged message");
    return message;
  }

  template <class M>
  static void answer(Connection& connection, const M& message, const std::vector<int>& fds = {}) {
    try {
      if (connection.peer) connection.peer->send(message, 1, fds);
    } catch (const std::runtime_error&) {
      // It has closed its line; poll() says so too.
    }
  }

  void on_frame(Connection& connection, const Frame& frame) {
    if (frame.type == MessageType::worker_join) {
      connection.rank = take<WorkerJoin>(frame).rank;
      connection.joined = true;
      WorkerTopology topology = one_host(connection.rank, static_cast<std::uint32_t>(size_));
      topology.generation = static_cast<std::uint32_t>(blobs.size());
      if (hosts > 1) {
        topology.local_rank = 0;
        topology.local_size = 1;
        topology.local_ranks = {connection.rank};
        topology.cross_rank = connection.rank;
        topology.cross_size = hosts;
      }
      answer(connection, Welcome{});
      answer(connection, topology);
    } else if (frame.type == MessageType::segment_get) {
      const auto get = take<SegmentGet>(frame);
      auto found = segments_.find(get.name);
      if (found == segments_.end()) found = segments_.emplace(get.name, make_memfd(get.size)).first;
      answer(connection, Segment{get.request, Errc::ok, get.size}, {found->second.get()});
    } else if (frame.type == MessageType::segment_drop) {
      segments_.erase(take<SegmentDrop>(frame).name);
    } else if (frame.type == MessageType::fence_enter) {
      auto enter = take<FenceEnter>(frame);
      if (connection.rank == 0) blob_ = std::move(enter.blob);
      if (++waiting_ < size_) return;
      waiting_ = 0;
      blobs.push_back(blob_);
      if (agent_dies_after_ms >= 0)
        dies_at_ =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(agent_dies_after_ms);
      for (Connection& other : connections_)
        if (!other.left)
          answer(other,
                 FenceRelease{enter.fence, change_blob ? change_blob(other.rank, blob_) : blob_});
    } else if (frame.type == MessageType::worker_leave) {
      connection.left = true;
      tell_lost({connection.rank, true, {}});
    }
  }

  void tell_lost(const PeerLost& lost) {
    for (Connection& other : connections_)
      if (other.joined && !other.left && other.rank != lost.rank) answer(other, lost);
  }

  const int size_;
  std::string name_;
  UniqueFd listener_;
  std::vector<Connection> connections_;
  std::map<std::string, UniqueFd> segments_;
  int waiting_ = 0;
  std::string blob_;
  std::optional<std::chrono::steady_clock::time_point> dies_at_;
};

}  // namespace hvdrun::test
