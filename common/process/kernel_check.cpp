#include "common/process/kernel_check.h"

#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace hvdrun {

std::string missing_kernel_feature() {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  // Filters answer EPERM too.
  if (pidfd || (errno != ENOSYS && errno != EPERM)) return {};
  return "the kernel, or a filter of system calls (seccomp), does not allow pidfd_open; hvdrun "
         "needs Linux 5.3 or newer, in a container with a seccomp profile that knows it";
}

}  // namespace hvdrun
