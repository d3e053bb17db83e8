// The GPU of a rank: its primary context, which all libraries of a process share.
#pragma once

#include <memory>
#include <string>

#include "worker/hvd/gpu/exit_gate.h"
#include "worker/hvd/gpu/loader.h"

namespace hvdrun {

class GpuDevice {
 public:
  // Retains the primary context of GPU `ordinal` (among the visible ones) and makes it the current
  // one of this thread. So the CUDA runtime begins here too and makes no context on GPU 0. `driver`
  // must outlive this. Throws Error(unavailable).
  GpuDevice(const CudaDriver& driver, int ordinal);
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  ~GpuDevice();

  const cuda::Api& api() const { return api_; }
  int ordinal() const { return ordinal_; }
  cuda::Context context() const { return context_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200"
  const cuda::Uuid& uuid() const { return uuid_; }
  // "GPU 1 (NVIDIA H200)"
  std::string words() const;
  // CUDA has ended, because the process does.
  bool has_closed() const;

 private:
  const cuda::Api& api_;
  int ordinal_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  std::string name_;
  cuda::Uuid uuid_{};
};

// While it lives the device is this thread's current one, whatever the caller's was, and a graph
// that somebody captures forbids this thread nothing: asking whether an event has come would spoil
// it. Throws Error(unavailable), also once the process ends (exit_gate.h).
class CurrentDevice {
 public:
  explicit CurrentDevice(const GpuDevice& device, DriverPass::For purpose = DriverPass::For::work);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();

 private:
  const DriverPass pass_;
  const cuda::Api& api_;
  int capture_mode_ = cuda::kCaptureModeRelaxed;  // the thread's own meanwhile
};

// The same for what must not throw: destructors. Where it says false, a device that does not take
// calls any more has nothing left to free.
class DeviceToFree {
 public:
  explicit DeviceToFree(const GpuDevice& device, DriverPass::For purpose = DriverPass::For::work)
      : pass_(purpose),
        api_(device.api()),
        current_(pass_ && api_.context_push(device.context()) == cuda::kSuccess) {}
  DeviceToFree(const DeviceToFree&) = delete;
  DeviceToFree& operator=(const DeviceToFree&) = delete;
  ~DeviceToFree() {
    cuda::Context popped = nullptr;
    if (current_) api_.context_pop(&popped);
  }
  explicit operator bool() const { return current_; }

 private:
  const DriverPass pass_;
  const cuda::Api& api_;
  const bool current_;
};

// The device that this rank uses, or none and why it runs on the CPU. hvd::init selects it first,
// before any context exists. An empty CUDA_VISIBLE_DEVICES is looked at before the driver is even
// loaded. Throws Error(unavailable) for more local ranks than GPUs, unless they may share (tests).
struct SelectedDevice {
  std::unique_ptr<const CudaDriver> driver;
  std::unique_ptr<GpuDevice> device;  // null: the CPU
  std::string why;                    // then: the reason, one line
};
SelectedDevice select_device(int local_rank, int local_size, const char* visible_devices,
                             const std::string& driver_file = {}, bool may_share = false);

}  // namespace hvdrun
