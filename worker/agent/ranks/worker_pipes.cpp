#include "worker/agent/ranks/worker_pipes.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

std::error_code open_pipe(UniqueFd& read, UniqueFd& write) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return {errno, std::system_category()};
  read.reset(fds[0]);
  write.reset(fds[1]);
  return {};
}

}  // namespace

std::error_code WorkerPipes::open(bool has_input) {
  if (const std::error_code ec = open_pipe(out_read, out_write)) return ec;
  if (const std::error_code ec = open_pipe(err_read, err_write)) return ec;
  if (has_input) return open_pipe(in_read, in_write);
  in_read.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return in_read ? std::error_code() : std::error_code(errno, std::system_category());
}

}  // namespace hvdrun
