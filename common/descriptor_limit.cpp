#include "common/descriptor_limit.h"

#include <sys/resource.h>

namespace hvdrun {

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_cur != before) ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

}  // namespace hvdrun
