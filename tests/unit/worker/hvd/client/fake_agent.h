// The agent's side of a worker's line, frame by frame, on a real Unix socket.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "common/base/unique_fd.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace hvdrun::test {

inline std::string fresh_socket_name() {
  static std::atomic<int> next{0};
  return "@hvd-test-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

inline UniqueFd listen_on(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), 64) != 0)
    throw std::runtime_error("cannot listen on " + name);
  return fd;
}

inline UniqueFd make_memfd(std::size_t bytes) {
  UniqueFd fd(::memfd_create("hvd-test", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error("memfd");
  return fd;
}

// All bytes, the descriptors with the first of them.
inline void send_bytes(int socket, std::string_view bytes, const std::vector<int>& fds = {}) {
  std::vector<int> pending = fds;
  while (!bytes.empty()) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    if (!pending.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(pending.size() * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(pending.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), pending.data(), pending.size() * sizeof(int));
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0) throw std::runtime_error("the worker closed the line");
    pending.clear();
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// One accepted worker.
class FakeAgentPeer {
 public:
  explicit FakeAgentPeer(UniqueFd socket) : socket_(std::move(socket)) {}

  // The next frame; throws when the worker closes, or says nothing for ten seconds.
  Frame read_frame() {
    while (true) {
      std::error_code ec;
      if (std::optional<Frame> frame = decoder_.next(ec)) return *std::move(frame);
      if (ec) throw std::runtime_error("the worker sent a damaged frame");
      if (!read_more()) throw std::runtime_error("the worker closed the line");
    }
  }
  template <class M>
  M read(std::uint32_t epoch) {
    const Frame frame = read_frame();
    M message;
    if (frame.type != M::kType || decode(frame.payload, message))
      throw std::runtime_error("not the expected message but type " +
                               std::to_string(static_cast<unsigned>(frame.type)));
    if (frame.epoch != epoch) throw std::runtime_error("wrong epoch from the worker");
    return message;
  }
  // True when the worker closed without another frame.
  bool at_end() {
    std::error_code ec;
    return !decoder_.next(ec) && !read_more();
  }
  template <class M>
  void send(const M& message, std::uint32_t epoch, const std::vector<int>& fds = {}) {
    send_bytes(socket_.get(), encode_frame(message, epoch), fds);
  }
  int socket() const { return socket_.get(); }
  void close() { socket_.reset(); }

  // Hello and join of rank `rank`, welcome and topology back.
  WorkerJoin let_in(std::uint32_t epoch, const WorkerTopology& topology) {
    read<Hello>(0);
    const WorkerJoin join = read<WorkerJoin>(0);
    send(Welcome{}, 0);
    send(topology, epoch);
    return join;
  }

 private:
  bool read_more() {
    pollfd polled{socket_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 10'000) != 1) throw std::runtime_error("the worker says nothing");
    char buffer[4096];
    const ssize_t count = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (count <= 0) return false;
    decoder_.feed({buffer, static_cast<std::size_t>(count)});
    return true;
  }

  UniqueFd socket_;
  FrameDecoder decoder_;
};

inline WorkerTopology one_host(std::uint32_t rank, std::uint32_t size) {
  WorkerTopology topology;
  topology.rank = topology.local_rank = rank;
  topology.size = topology.local_size = size;
  topology.cross_size = 1;
  topology.usable_cores = 2;
  for (std::uint32_t i = 0; i < size; ++i) topology.local_ranks.push_back(i);
  return topology;
}

// A thread that accepts one worker and follows a script. finish() rethrows what went wrong in it.
class FakeAgent {
 public:
  using Script = std::function<void(FakeAgentPeer&)>;

  explicit FakeAgent(Script script) : name_(fresh_socket_name()), listener_(listen_on(name_)) {
    thread_ = std::thread([this, script = std::move(script)] {
      try {
        FakeAgentPeer peer(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
        script(peer);
      } catch (...) {
        error_ = std::current_exception();
      }
    });
  }
  ~FakeAgent() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // nobody came
    if (thread_.joinable()) thread_.join();
  }
  void finish() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  UniqueFd listener_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace hvdrun::test
