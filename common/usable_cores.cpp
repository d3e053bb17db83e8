#include "common/usable_cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sched.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

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

// The quota of one cgroup folder in cores, or infinity.
double quota_of(const std::string& folder) {
  std::ifstream v2(folder + "/cpu.max");
  double quota = 0;  // the word "max" fails to read, which means no limit
  double period = 0;
  if (v2 >> quota >> period && quota > 0 && period > 0) return quota / period;
  std::ifstream v1_quota(folder + "/cpu.cfs_quota_us");
  std::ifstream v1_period(folder + "/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return std::numeric_limits<double>::infinity();
}

// The smallest quota from this process's cgroup up to the root: each level limits those below.
double cgroup_cores() {
  double cores = std::numeric_limits<double>::infinity();
  std::ifstream self("/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string root = "/sys/fs/cgroup";
    if (!controllers.empty()) {
      std::istringstream list(controllers);
      bool cpu = false;
      for (std::string name; std::getline(list, name, ',');) cpu = cpu || name == "cpu";
      if (!cpu) continue;
      root += "/" + controllers;
    }
    for (std::string path = line.substr(second + 1); !path.empty();) {
      cores = std::min(cores, quota_of(root + path));
      path.resize(path.find_last_of('/'));
    }
    cores = std::min(cores, quota_of(root));
  }
  return cores;
}

}  // namespace

std::uint32_t usable_cores() {
  const double quota = cgroup_cores();
  const std::uint32_t cores = std::max(1U, affinity_cores());
  if (quota >= cores) return cores;
  return std::max(1U, static_cast<std::uint32_t>(std::floor(quota)));
}

}  // namespace hvdrun
