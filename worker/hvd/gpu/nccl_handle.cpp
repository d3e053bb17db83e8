#include "worker/hvd/gpu/nccl_handle.h"

#include <utility>

namespace hvdrun {

NcclHandle::Use::Use(NcclHandle& handle, std::chrono::milliseconds patience) : handle_(handle) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(handle_.mutex_);
  while (handle_.used_ && handle_.comm_ != nullptr)
    if (!handle_.free_.wait_until(handle_.mutex_, deadline)) break;
  if (handle_.used_ || handle_.comm_ == nullptr) return;
  handle_.used_ = true;
  entered_ = true;
  comm_ = handle_.comm_;
}

NcclHandle::Use::~Use() {
  if (!entered_) return;
  const MutexLock lock(handle_.mutex_);
  handle_.used_ = false;
  handle_.free_.notify_all();
}

void NcclHandle::set(nccl::Comm comm) {
  const MutexLock lock(mutex_);
  comm_ = comm;
}

bool NcclHandle::is_empty() {
  const MutexLock lock(mutex_);
  return comm_ == nullptr;
}

nccl::Comm NcclHandle::take(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  nccl::Comm taken = std::exchange(comm_, nullptr);
  free_.notify_all();
  if (taken == nullptr) return nullptr;
  while (used_)
    if (!free_.wait_until(mutex_, deadline)) break;
  return taken;
}

}  // namespace hvdrun
