#include "worker/hvd/client/unix_socket.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include <hvd/hvd.h>

#include "common/base/descriptor_limit.h"

namespace hvdrun {
namespace {

[[noreturn]] void unreachable(const std::string& name, const std::string& why) {
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   "cannot reach this host's hvdrun agent at '" + name + "': " + why);
}

// An abstract name can be taken by anybody on the host who is faster than the agent.
void check_owner(int socket, const std::string& name) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    unreachable(name, system_fault_text(errno));
  if (peer.uid == ::geteuid() || peer.uid == 0) return;
  unreachable(name, "the socket belongs to user " + std::to_string(peer.uid) + " (process " +
                        std::to_string(peer.pid) + "), not to user " + std::to_string(::geteuid()) +
                        " or root: not trusted");
}

}  // namespace

UniqueFd connect_agent(const std::string& name, std::chrono::steady_clock::time_point deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path))
    unreachable(name, "the name must have 1 to 107 bytes");
  std::memcpy(address.sun_path, name.data(), name.size());
  std::size_t path_bytes = name.size() + 1;
  if (name[0] == '@') {
    address.sun_path[0] = '\0';
    path_bytes = name.size();  // an abstract name has no terminator
  }
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_bytes);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) unreachable(name, system_fault_text(errno));
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    // A full backlog (every local rank connects at the same moment) is the one fault that passes;
    // a Unix socket offers no event for it.
    if (error != EAGAIN && error != EINTR) unreachable(name, system_fault_text(error));
    if (std::chrono::steady_clock::now() >= deadline)
      unreachable(name, "it did not accept the connection in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  check_owner(socket.get(), name);
  return socket;
}

Received receive(int socket, char* buffer, std::size_t size) {
  Received result;
  iovec part{buffer, size};
  constexpr std::size_t kMaxDescriptors = 8;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (count < 0) {
    result.again = errno == EAGAIN || errno == EINTR;
    result.error = result.again ? 0 : errno;
    return result;
  }
  for (cmsghdr* part_header = CMSG_FIRSTHDR(&message); part_header != nullptr;
       part_header = CMSG_NXTHDR(&message, part_header)) {
    if (part_header->cmsg_level != SOL_SOCKET || part_header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t found = (part_header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < found; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part_header) + i * sizeof(int), sizeof(int));
      result.descriptors.emplace_back(fd);
    }
  }
  // The kernel closed what did not fit: which frame lost its descriptor is unknown.
  if ((message.msg_flags & MSG_CTRUNC) != 0) result.error = EMSGSIZE;
  result.bytes = static_cast<std::size_t>(count);
  return result;
}

long send_some(int socket, std::string_view bytes) {
  const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<long>(count);
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

}  // namespace hvdrun
