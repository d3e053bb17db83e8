// Compares our declarations with the headers of the toolkit. Nothing here is ever called; it is
// compiled where the headers are (docs/design/gpu.md).
#include <cstddef>
#include <tuple>
#include <type_traits>

#include <cuda.h>
#include <nccl.h>

#include "worker/hvd/gpu/cuda_api.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun {
namespace {

// True: a parameter is passed the same way. That are numbers and enumerations of the same size and
// kind, pointers, structs of the same size that are copied as bytes.
template <class Ours, class Theirs>
constexpr bool same_parameter() {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): of handles, which are pointers, too
  if (sizeof(Ours) != sizeof(Theirs) || alignof(Ours) != alignof(Theirs)) return false;
  constexpr auto kWhole = [](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return std::is_integral_v<T> || std::is_enum_v<T>;
  };
  if (std::is_class_v<Ours>)
    return std::is_class_v<Theirs> && std::is_trivially_copyable_v<Ours> &&
           std::is_trivially_copyable_v<Theirs>;
  if (std::is_pointer_v<Ours>) return std::is_pointer_v<Theirs>;
  return kWhole(static_cast<Ours*>(nullptr)) && kWhole(static_cast<Theirs*>(nullptr));
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameFunction<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same_parameter<R, S>() && (same_parameter<A, B>() && ...)> {
};

// cuda.h defines the names without a version as those with the newest; the symbols are checked as
// they are loaded.
#define HVD_CHECK_CUDA(member, symbol, parameters)                                     \
  static_assert(SameFunction<decltype(cuda::Api::member), decltype(&::symbol)>::value, \
                #symbol " is declared otherwise in cuda.h");
HVD_CUDA_BASE_FUNCTIONS(HVD_CHECK_CUDA)
HVD_CUDA_FUNCTIONS(HVD_CHECK_CUDA)
#undef HVD_CHECK_CUDA

#define HVD_CHECK_NCCL(member, symbol, parameters)                                     \
  static_assert(SameFunction<decltype(nccl::Api::member), decltype(&::symbol)>::value, \
                #symbol " is declared otherwise in nccl.h");
HVD_NCCL_BASE_FUNCTIONS(HVD_CHECK_NCCL)
HVD_NCCL_FUNCTIONS(HVD_CHECK_NCCL)
HVD_NCCL_TEXT_FUNCTIONS(HVD_CHECK_NCCL)
#if NCCL_VERSION_CODE >= 22807
HVD_NCCL_OPTIONAL_FUNCTIONS(HVD_CHECK_NCCL)
static_assert(nccl::kShrinkAbort == NCCL_SHRINK_ABORT);
static_assert(nccl::kRevokeDefault == NCCL_REVOKE_DEFAULT);
#endif
#undef HVD_CHECK_NCCL

static_assert(cuda::kSuccess == CUDA_SUCCESS && cuda::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(cuda::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(cuda::kDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(cuda::kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(cuda::kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(cuda::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(cuda::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(cuda::kEventWithTiming == CU_EVENT_DEFAULT);
static_assert(cuda::kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(cuda::kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(std::is_same_v<cuda::DevicePointer, CUdeviceptr>);
static_assert(std::is_same_v<cuda::Device, CUdevice>);
static_assert(sizeof(cuda::Uuid) == sizeof(CUuuid));

static_assert(nccl::success + 0 == ncclSuccess + 0);
static_assert(nccl::unhandled_cuda_error + 0 == ncclUnhandledCudaError + 0);
static_assert(nccl::system_error + 0 == ncclSystemError + 0);
static_assert(nccl::internal_error + 0 == ncclInternalError + 0);
static_assert(nccl::invalid_argument + 0 == ncclInvalidArgument + 0);
static_assert(nccl::invalid_usage + 0 == ncclInvalidUsage + 0);
static_assert(nccl::remote_error + 0 == ncclRemoteError + 0);
static_assert(nccl::in_progress + 0 == ncclInProgress + 0);
static_assert(nccl::int8 + 0 == ncclInt8 + 0 && nccl::uint8 + 0 == ncclUint8 + 0);
static_assert(nccl::int32 + 0 == ncclInt32 + 0 && nccl::int64 + 0 == ncclInt64 + 0);
static_assert(nccl::float16 + 0 == ncclFloat16 + 0 && nccl::bfloat16 + 0 == ncclBfloat16 + 0);
static_assert(nccl::float32 + 0 == ncclFloat32 + 0 && nccl::float64 + 0 == ncclFloat64 + 0);
static_assert(nccl::sum + 0 == ncclSum + 0 && nccl::prod + 0 == ncclProd + 0);
static_assert(nccl::max + 0 == ncclMax + 0 && nccl::min + 0 == ncclMin + 0);
static_assert(nccl::avg + 0 == ncclAvg + 0);
static_assert(nccl::scalar_device + 0 == ncclScalarDevice + 0);
static_assert(nccl::scalar_host + 0 == ncclScalarHostImmediate + 0);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(nccl::kSplitNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(nccl::kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(nccl::version_code(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) == NCCL_VERSION_CODE);

// The members of ours stand where those of theirs do, and the magic number is theirs.
static_assert(offsetof(nccl::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(nccl::Config{}.magic == kTheirs.magic);

}  // namespace
}  // namespace hvdrun
