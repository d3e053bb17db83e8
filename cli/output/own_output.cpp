#include "cli/output/own_output.h"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace hvdrun {

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::write(STDOUT_FILENO, text.data(), text.size());
    if (sent >= 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {  // it is shared with who has set O_NONBLOCK
      pollfd wait{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      throw OutputError(errno);
    }
  }
}

void confirm_output(int (*close_file)(int)) {
  const int copy = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  if (close_file(copy) != 0 && errno != EINTR && errno != EBADF) throw OutputError(errno);
}

}  // namespace hvdrun
