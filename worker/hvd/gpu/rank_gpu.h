// The GPU of a rank, and what the communicators on it share. NCCL and our kernels are loaded when
// the first of them is made that needs them: a program that computes on the CPU needs neither, a
// job of one rank no NCCL.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "worker/hvd/gpu/exit_gate.h"
#include "worker/hvd/gpu/gpu_device.h"
#include "worker/hvd/gpu/nccl_communicator.h"
#include "worker/hvd/gpu/watch.h"

namespace hvdrun {

class RankGpu {
 public:
  // `selected` has a device. `nccl_file` as for load_nccl(), `kernels_file` as for
  // load_gpu_kernels(). `on_trouble` as for GpuWatch.
  RankGpu(SelectedDevice selected, std::string nccl_file, GpuWatch::OnTrouble on_trouble = {},
          std::string kernels_file = {});
  RankGpu(const RankGpu&) = delete;
  RankGpu& operator=(const RankGpu&) = delete;
  ~RankGpu() = default;

  const GpuDevice& device() const { return *parts_.device; }
  // The parts of every communicator. `nccl` is null when it cannot be loaded, and `no_nccl` says
  // why; for one of a rank alone it is not loaded.
  struct Parts {
    GpuParts parts;
    std::string no_nccl;
  };
  Parts parts() HVD_EXCLUDES(mutex_);
  GpuParts parts_alone() HVD_EXCLUDES(mutex_);
  // Looks after the communicators that it is given, from the first on.
  GpuWatch& watch() HVD_EXCLUDES(mutex_);
  // See GpuWatch; without communicators nothing.
  void abort(const hvd::Error& reason) HVD_EXCLUDES(mutex_);
  void tell_times() HVD_EXCLUDES(mutex_);
  // As leave_with_gpu(). With a reason all communicators fail first.
  std::optional<std::string> leave(const hvd::Error* reason) HVD_EXCLUDES(mutex_);

 private:
  void load_kernels() HVD_REQUIRES(mutex_);
  void end_at_exit() HVD_EXCLUDES(mutex_);
  // Outside the lock: the watch may abort something meanwhile, and abort() must not wait for that.
  // Null: there is none.
  GpuWatch* watch_if_any() HVD_EXCLUDES(mutex_);

  const std::string nccl_file_;
  const std::string kernels_file_;
  const GpuWatch::OnTrouble on_trouble_;
  Mutex mutex_;
  GpuParts parts_;  // driver and device are constant, the rest is guarded by mutex_
  std::string no_nccl_ HVD_GUARDED_BY(mutex_);
  bool loaded_nccl_ HVD_GUARDED_BY(mutex_) = false;
  bool loaded_kernels_ HVD_GUARDED_BY(mutex_) = false;
  std::unique_ptr<GpuWatch> watch_ HVD_GUARDED_BY(mutex_);
  const EndsAtExit ends_at_exit_;
};

}  // namespace hvdrun
