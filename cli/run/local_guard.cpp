#include "cli/run/local_guard.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hvdrun {
namespace {

int pidfd_of(const Process& process) {
  UniqueFd pidfd(::dup(process.pidfd.get()));
  if (!pidfd) throw std::system_error(errno, std::system_category(), "dup");
  return pidfd.release();
}

std::string fault_of(const ExitStatus& status) {
  if (status.signaled) return "its guard was killed by signal " + std::to_string(status.value);
  return status.value == 0 ? "" : "its guard ended with code " + std::to_string(status.value);
}

}  // namespace

LocalGuard::LocalGuard(boost::asio::io_context& io, OpenHost open, Callbacks callbacks)
    : open_(std::move(open)),
      callbacks_(std::move(callbacks)),
      words_(io, std::move(open_.words),
             [this](const std::string& line) { callbacks_.line(line); }),
      exit_(io, pidfd_of(open_.guard)) {
  wait();
}

void LocalGuard::wait() {
  exit_.async_wait(exit_.wait_read, [this](const auto& ec) {
    if (ec) return;
    if (!is_over(open_.guard)) return wait();
    ExitStatus status;
    try_reap(open_.guard, status);
    exit_.close();
    close_lease();  // the guard is still there when it was its keeper that ended
    words_.drain();
    callbacks_.ended(fault_of(status));
  });
}

}  // namespace hvdrun
