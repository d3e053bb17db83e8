#include "common/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <utility>

namespace hvdrun {

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_cur != before) ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

UniqueFd leave_low_numbers(UniqueFd fd) {
  if (fd.get() < FD_SETSIZE - FD_SETSIZE / 4 || fd.get() >= FD_SETSIZE) return fd;
  raise_descriptor_limit();
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, FD_SETSIZE));
  return high ? std::move(high) : std::move(fd);
}

}  // namespace hvdrun
