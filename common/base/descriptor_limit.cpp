#include "common/base/descriptor_limit.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <utility>

namespace hvdrun {
namespace {

// Enough for a job of any size on one host.
constexpr rlim_t kEnoughFiles = 65536;

std::string number(rlim_t value) { return std::to_string(value); }

}  // namespace

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

std::string descriptor_cure(const std::error_code& ec) {
  if (ec == std::errc::too_many_files_open_in_system)
    return "; all processes of this machine together can have no more (sysctl fs.file-max)";
  rlimit limit{};
  if (ec != std::errc::too_many_files_open || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  if (limit.rlim_cur < limit.rlim_max)
    return "; the limit is " + number(limit.rlim_cur) + ": write ulimit -n " +
           number(std::min(limit.rlim_max, kEnoughFiles)) + " before";
  return "; the limit is " + number(limit.rlim_cur) +
         " (ulimit -Hn): raise it with nofile in /etc/security/limits.conf, LimitNOFILE= of a "
         "service, or docker run --ulimit nofile=" +
         number(kEnoughFiles);
}

std::string system_fault_text(int error) {
  const std::error_code ec(error, std::system_category());
  return ec.message() + descriptor_cure(ec);
}

}  // namespace hvdrun
