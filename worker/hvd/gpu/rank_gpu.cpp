#include "worker/hvd/gpu/rank_gpu.h"

#include <utility>

#include "worker/hvd/gpu/leaving.h"

namespace hvdrun {

RankGpu::RankGpu(SelectedDevice selected, std::string nccl_file, GpuWatch::OnTrouble on_trouble,
                 std::string kernels_file)
    : nccl_file_(std::move(nccl_file)),
      kernels_file_(std::move(kernels_file)),
      on_trouble_(std::move(on_trouble)),
      ends_at_exit_([this] { end_at_exit(); }) {
  // In this order: where memory ends between the two, the device still goes before its driver.
  parts_.device = std::move(selected.device);
  parts_.driver = std::move(selected.driver);
  guard_exit();  // the driver has been started by now
}

GpuWatch* RankGpu::watch_if_any() {
  const MutexLock lock(mutex_);
  return watch_.get();
}

void RankGpu::end_at_exit() {
  if (GpuWatch* const watch = watch_if_any(); watch != nullptr) watch->end_at_exit();
}

RankGpu::Parts RankGpu::parts() {
  const MutexLock lock(mutex_);
  if (!std::exchange(loaded_nccl_, true)) {
    Loaded<NcclLibrary> nccl = load_nccl(nccl_file_);
    parts_.nccl = std::move(nccl.value);
    no_nccl_ = std::move(nccl.why);
  }
  if (parts_.nccl != nullptr) load_kernels();
  return {parts_, no_nccl_};
}

GpuParts RankGpu::parts_alone() {
  const MutexLock lock(mutex_);
  load_kernels();
  return parts_;
}

void RankGpu::load_kernels() {
  if (std::exchange(loaded_kernels_, true)) return;
  Loaded<GpuKernels> kernels = load_gpu_kernels(kernels_file_);
  parts_.kernels = std::move(kernels.value);
  parts_.no_kernels = std::move(kernels.why);
}

GpuWatch& RankGpu::watch() {
  const MutexLock lock(mutex_);
  if (watch_ == nullptr) watch_ = std::make_unique<GpuWatch>(on_trouble_);
  return *watch_;
}

void RankGpu::abort(const hvd::Error& reason) {
  const MutexLock lock(mutex_);
  if (watch_ != nullptr) watch_->abort(reason);
}

std::optional<std::string> RankGpu::leave(const hvd::Error* reason) {
  GpuWatch* const watch = watch_if_any();
  if (watch != nullptr && reason != nullptr) watch->fail_all(*reason);
  GpuParts own;
  own.driver = parts_.driver;
  own.device = parts_.device;
  own.aborts = parts_.aborts;
  return leave_with_gpu(own);
}

void RankGpu::tell_times() {
  if (GpuWatch* const watch = watch_if_any(); watch != nullptr) watch->tell_times();
}

}  // namespace hvdrun
