#include "cli/job_connection.h"

#include <cstddef>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "cli/text/user_errors.h"
#include "common/base/printable.h"
#include "common/net/status_socket.h"

namespace hvdrun {

std::vector<std::string> running_jobs() {
  const std::string prefix = status_socket_prefix(::geteuid());
  std::vector<std::string> jobs;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const auto at = line.find(prefix);
    if (at == std::string::npos) continue;
    std::string job = printable(line.substr(at + prefix.size()));
    // A connection that is being served has the listener's name too.
    bool known = false;
    for (const std::string& other : jobs) known = known || other == job;
    if (!known) jobs.push_back(std::move(job));
  }
  return jobs;
}

std::string find_job(const std::string& begin) {
  std::vector<std::string> found;
  for (std::string& id : running_jobs())
    if (id.starts_with(begin)) found.push_back(std::move(id));
  if (found.empty())
    throw UsageError(begin.empty()
                         ? "no jobs of this user are running here"
                         : "no running job begins with '" + begin + "'; hvdrun ps lists them");
  if (found.size() > 1)
    throw UsageError(std::to_string(found.size()) +
                     " jobs are meant by that; name one of those that hvdrun ps lists");
  return found.front();
}

JobConnection::JobConnection(const std::string& job)
    : job_(job), fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  std::string name = status_socket_prefix(::geteuid()) + job;
  name.front() = '\0';
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof address.sun_path);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (!fd_ || ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || !is_own())
    fd_.reset();
}

// The name of an abstract socket is anybody's to take.
bool JobConnection::is_own() const {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

bool JobConnection::send(const std::string& bytes) const {
  if (!fd_) return false;
  Hello hello;
  hello.role = Role::status;
  hello.job_id = job_;
  const std::string all = encode_frame(hello) + bytes;
  return ::send(fd_.get(), all.data(), all.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(all.size());
}

std::optional<Frame> JobConnection::receive(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    std::error_code ec;
    if (auto frame = decoder_.next(ec)) return frame;
    if (ec) return std::nullopt;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wait{fd_.get(), POLLIN, 0};
    char buffer[65536];
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0)
      return std::nullopt;
    const ssize_t got = ::read(fd_.get(), buffer, sizeof buffer);
    if (got <= 0) return std::nullopt;
    decoder_.feed({buffer, static_cast<std::size_t>(got)});
  }
}

}  // namespace hvdrun
