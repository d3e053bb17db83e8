#include "worker/hvd/gpu/leaving.h"

#include <cstddef>
#include <memory>
#include <system_error>
#include <utility>

#include "common/base/mutex.h"
#include "worker/hvd/client/quiet_thread.h"
#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The answer of a thread that may be stuck in the driver for ever.
class Finding {
 public:
  void tell(std::string fault) {
    const MutexLock lock(mutex_);
    fault_ = std::move(fault);
    changed_.notify_all();
  }
  // Empty: no fault. None: it has not been told by then.
  std::optional<std::string> await(steady_clock::time_point deadline) {
    const MutexLock lock(mutex_);
    while (!fault_)
      if (!changed_.wait_until(mutex_, deadline)) break;
    return fault_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<std::string> fault_ HVD_GUARDED_BY(mutex_);
};

std::string check_context(const GpuDevice& device) {
  try {
    const CurrentDevice current(device);
    const cuda::Result result = device.api().context_synchronize();
    if (result == cuda::kSuccess) return {};
    return "cuCtxSynchronize: " + cuda_error_text(device.api(), result);
  } catch (const hvd::Error& error) {
    return error.what();
  }
}

}  // namespace

std::optional<std::string> leave_with_gpu(const GpuParts& parts, milliseconds context_patience) {
  const std::string lost = parts.device->words() + " is of no use to this process any more: ";
  if (const std::size_t hang = parts.aborts->wait(); hang > 0)
    return lost + std::to_string(hang) + (hang == 1 ? " communicator" : " communicators") +
           " of NCCL could not be ended within " + seconds_text(parts.aborts->patience()) +
           "; graphs that have captured collectives must be given back in a leave callback";
  const auto finding = std::make_shared<Finding>();
  try {
    quiet_thread([parts, finding] { finding->tell(check_context(*parts.device)); }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;  // no thread to be had: the next operation finds it out
  }
  const auto fault = finding->await(steady_clock::now() + context_patience);
  if (!fault)
    return lost + "it has work of this process that does not end within " +
           seconds_text(context_patience);
  if (!fault->empty()) return lost + *fault;
  return std::nullopt;
}

}  // namespace hvdrun
