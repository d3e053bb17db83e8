// The CPU quota of a cgroup, of either version, as the kernel's files have it. Sans-I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The texts of a folder's files; empty for one that is not there.
struct QuotaFiles {
  std::string_view cpu_max;        // version 2: "150000 100000", or "max 100000"
  std::string_view cfs_quota_us;   // version 1: "150000", or "-1"
  std::string_view cfs_period_us;  // "100000"
};

// In cores; infinity where there is no limit, or what is written says nothing that can be read.
double quota_cores(const QuotaFiles& files);

// The folders below /sys/fs/cgroup whose quotas limit a process, by its /proc/PID/cgroup: each
// level limits those below, so they are that of the process itself and all above.
std::vector<std::string> quota_folders(std::string_view proc_cgroup);

// The share of `cores` that a quota leaves: whole ones, at least 1.
std::uint32_t cores_within(double quota, std::uint32_t cores);

}  // namespace hvdrun
