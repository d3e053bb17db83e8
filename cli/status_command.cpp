#include "cli/status_command.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

#include "cli/output/own_output.h"
#include "cli/output/status_text.h"
#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"
#include "common/base/printable.h"
#include "common/base/unique_fd.h"
#include "common/net/status_socket.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace hvdrun {
namespace {

// For a coordinator to answer; it gives the hosts half a second itself.
constexpr std::chrono::milliseconds kAnswerTimeout{3'000};

// The ids of this user's jobs, from the kernel's list of Unix sockets.
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

class StatusConnection {
 public:
  explicit StatusConnection(const std::string& job)
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

  std::optional<JobStatus> ask(bool probe) {
    if (!fd_) return std::nullopt;
    Hello hello;
    hello.role = Role::status;
    hello.job_id = job_;
    const std::string bytes = encode_frame(hello) + encode_frame(StatusQuery{probe});
    if (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size()))
      return std::nullopt;
    const auto deadline = std::chrono::steady_clock::now() + kAnswerTimeout;
    for (;;) {
      std::error_code ec;
      while (const auto frame = decoder_.next(ec)) {
        JobStatus status;
        if (frame->type == MessageType::job_status && !decode(frame->payload, status))
          return status;
        if (frame->type != MessageType::welcome) return std::nullopt;
      }
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

 private:
  // The name of an abstract socket is anybody's to take.
  bool is_own() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid == ::geteuid();
  }

  std::string job_;
  UniqueFd fd_;
  FrameDecoder decoder_;
};

}  // namespace

int run_ps() {
  std::string text;
  for (const std::string& job : running_jobs()) {
    const auto status = StatusConnection(job).ask(false);
    if (!status) continue;  // it has ended meanwhile
    char row[128];
    if (text.empty()) {
      std::snprintf(row, sizeof row, "%-10s %-8s %-6s %-10s %-8s ", "JOB", "PID", "RANKS", "AGE",
                    "STATE");
      text = row + std::string("PROGRAM\n");
    }
    std::string program;
    for (const std::string& word : status->argv) program += (program.empty() ? "" : " ") + word;
    std::snprintf(row, sizeof row, "%-10s %-8u %-6u %-10s %-8s ", job.substr(0, 8).c_str(),
                  status->driver_pid, status->size, age_text(status->age_ms).c_str(),
                  status->state.c_str());
    text += row + printable(program) + "\n";
  }
  print(text.empty() ? "no jobs of this user are running here\n" : text);
  return exit_code::kOk;
}

int run_status(const std::string& job) {
  std::vector<std::string> found;
  for (std::string& id : running_jobs())
    if (id.starts_with(job)) found.push_back(std::move(id));
  if (found.empty())
    throw UsageError(job.empty()
                         ? "no jobs of this user are running here"
                         : "no running job begins with '" + job + "'; hvdrun ps lists them");
  if (found.size() > 1)
    throw UsageError(std::to_string(found.size()) +
                     " jobs are meant by that; name one of those that hvdrun ps lists");
  const auto status = StatusConnection(found.front()).ask(true);
  if (!status) {
    std::fprintf(stderr, "hvdrun: job %s did not answer\n", found.front().substr(0, 8).c_str());
    return exit_code::kTryAgain;
  }
  std::string text;
  for (const std::string& line : describe_status(*status, {})) text += line + "\n";
  print(text);
  return exit_code::kOk;
}

}  // namespace hvdrun
