// The part of NCCL that libhvd calls, declared by us for the same reasons as cuda_api.h;
// api_check.cpp compares it with nccl.h where that header is.
#pragma once

#include <climits>
#include <cstddef>

#include "worker/hvd/gpu/cuda_api.h"

namespace hvdrun::nccl {

enum Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};
enum DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};
// Others than these come from redop_create_premul_sum.
enum RedOp : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };
enum ScalarResidence : int { scalar_device = 0, scalar_host = 1 };

using Comm = struct CommOfNccl*;
struct UniqueId {
  char bytes[128];
};

inline constexpr int kSplitNoColor = -1;
inline constexpr int kShrinkAbort = 1;
inline constexpr int kRevokeDefault = 0;
inline constexpr int kUndefined = INT_MIN;

// As NCCL codes it from 2.9 on.
constexpr int version_code(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}
// The first with ncclCommInitRankConfig, so with a creation that does not block: NCCL's bootstrap
// waits for missing ranks for ever, and only what is not inside it can be given up.
inline constexpr int kMinVersion = version_code(2, 14, 3);

// ncclConfig_t as it was in 2.14. The struct has grown at its end since; NCCL copies `size` bytes
// and takes its own defaults for every member that is newer than `version`. So the oldest form is
// understood by every NCCL, and a newer one must never be passed to an older library.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = static_cast<unsigned>(version_code(2, 14, 0));
  int blocking = kUndefined;
};

// clang-format off
#define HVD_NCCL_BASE_FUNCTIONS(one) one(get_version, ncclGetVersion, (int*))
#define HVD_NCCL_FUNCTIONS(one) \
  one(get_unique_id, ncclGetUniqueId, (hvdrun::nccl::UniqueId*)) \
  one(comm_init_rank_config, ncclCommInitRankConfig, (hvdrun::nccl::Comm*, int, \
      hvdrun::nccl::UniqueId, int, hvdrun::nccl::Config*)) \
  one(comm_finalize, ncclCommFinalize, (hvdrun::nccl::Comm)) \
  one(comm_destroy, ncclCommDestroy, (hvdrun::nccl::Comm)) \
  one(comm_abort, ncclCommAbort, (hvdrun::nccl::Comm)) \
  one(comm_get_async_error, ncclCommGetAsyncError, \
      (hvdrun::nccl::Comm, hvdrun::nccl::Result*)) \
  one(redop_create_premul_sum, ncclRedOpCreatePreMulSum, (hvdrun::nccl::RedOp*, void*, \
      hvdrun::nccl::DataType, hvdrun::nccl::ScalarResidence, hvdrun::nccl::Comm)) \
  one(redop_destroy, ncclRedOpDestroy, (hvdrun::nccl::RedOp, hvdrun::nccl::Comm)) \
  one(all_reduce, ncclAllReduce, (const void*, void*, std::size_t, hvdrun::nccl::DataType, \
      hvdrun::nccl::RedOp, hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(reduce, ncclReduce, (const void*, void*, std::size_t, hvdrun::nccl::DataType, \
      hvdrun::nccl::RedOp, int, hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(broadcast, ncclBroadcast, (const void*, void*, std::size_t, hvdrun::nccl::DataType, int, \
      hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(all_gather, ncclAllGather, (const void*, void*, std::size_t, hvdrun::nccl::DataType, \
      hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(reduce_scatter, ncclReduceScatter, (const void*, void*, std::size_t, \
      hvdrun::nccl::DataType, hvdrun::nccl::RedOp, hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(send, ncclSend, (const void*, std::size_t, hvdrun::nccl::DataType, int, \
      hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(receive, ncclRecv, (void*, std::size_t, hvdrun::nccl::DataType, int, \
      hvdrun::nccl::Comm, hvdrun::cuda::Stream)) \
  one(group_start, ncclGroupStart, ()) \
  one(group_end, ncclGroupEnd, ())
// Newer than kMinVersion: null where they are missing.
#define HVD_NCCL_OPTIONAL_FUNCTIONS(one) \
  one(comm_split, ncclCommSplit, (hvdrun::nccl::Comm, int, int, hvdrun::nccl::Comm*, \
      hvdrun::nccl::Config*)) \
  one(comm_shrink, ncclCommShrink, (hvdrun::nccl::Comm, int*, int, hvdrun::nccl::Comm*, \
      hvdrun::nccl::Config*, int)) \
  one(comm_revoke, ncclCommRevoke, (hvdrun::nccl::Comm, int))
// Their result is text.
#define HVD_NCCL_TEXT_FUNCTIONS(one) \
  one(get_error_string, ncclGetErrorString, (hvdrun::nccl::Result)) \
  one(get_last_error, ncclGetLastError, (hvdrun::nccl::Comm))
// clang-format on
// NOLINTBEGIN(bugprone-macro-parentheses): they are names and lists of types
#define HVD_NCCL_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
#define HVD_NCCL_TEXT_MEMBER(member, symbol, parameters) const char*(*member)parameters = nullptr;
// NOLINTEND(bugprone-macro-parentheses)
struct Api {
  HVD_NCCL_BASE_FUNCTIONS(HVD_NCCL_MEMBER)
  HVD_NCCL_FUNCTIONS(HVD_NCCL_MEMBER)
  HVD_NCCL_OPTIONAL_FUNCTIONS(HVD_NCCL_MEMBER)
  HVD_NCCL_TEXT_FUNCTIONS(HVD_NCCL_TEXT_MEMBER)
};
#undef HVD_NCCL_MEMBER
#undef HVD_NCCL_TEXT_MEMBER

}  // namespace hvdrun::nccl
