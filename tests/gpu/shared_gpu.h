// Several ranks on one GPU, which NCCL only allows ranks that it takes for those of other hosts.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun::test {

// The words that such a rank's environment must have before NCCL is loaded: each is on a host of
// its own, they meet over lo, and their kernels leave room for each other.
inline std::vector<std::pair<std::string, std::string>> shared_gpu_environment(
    const std::string& rank) {
  return {{"NCCL_IB_DISABLE", "1"},   {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_MAX_CTAS", "2"},
          {"NCCL_RAS_ENABLE", "0"},   {"NCCL_HOSTID", "hvdrun-gpu-check-" + rank}};
}

// For a rank that hvdrun has started with HVD_SHARE_GPU=1, by itself; before hvd::init().
inline void share_gpu_if_asked() {
  // NOLINTBEGIN(concurrency-mt-unsafe): there are no threads yet
  const char* const share = std::getenv("HVD_SHARE_GPU");
  const char* const rank = std::getenv("HVD_RANK");
  if (share == nullptr || rank == nullptr || std::string(share) != "1") return;
  for (const auto& [name, value] : shared_gpu_environment(rank))
    ::setenv(name.c_str(), value.c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace hvdrun::test
