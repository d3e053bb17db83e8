#include "common/host/usable_cores.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "common/host/cpu_quota.h"

namespace hvdrun {
namespace {

std::uint32_t affinity_cores() {
  // A kernel with more than 1024 cores rejects the default set size: grow until it fits.
  for (std::size_t cores = CPU_SETSIZE; cores <= 1U << 20; cores *= 2) {
    std::vector<unsigned long> mask(cores / (8 * sizeof(unsigned long)));
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (::sched_getaffinity(0, bytes, set) == 0)
      return static_cast<std::uint32_t>(CPU_COUNT_S(bytes, set));
  }
  return static_cast<std::uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

// Empty where there is no such file.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double cgroup_cores() {
  double cores = std::numeric_limits<double>::infinity();
  for (const std::string& folder : quota_folders(text_of("/proc/self/cgroup"))) {
    const std::string v2 = text_of(folder + "/cpu.max");
    const std::string v1_quota = text_of(folder + "/cpu.cfs_quota_us");
    const std::string v1_period = text_of(folder + "/cpu.cfs_period_us");
    cores = std::min(cores, quota_cores({v2, v1_quota, v1_period}));
  }
  return cores;
}

}  // namespace

std::uint32_t usable_cores() { return cores_within(cgroup_cores(), affinity_cores()); }

}  // namespace hvdrun
