#include "worker/hvd/gpu/gpu_device.h"

#include <array>

#include <hvd/hvd.h>

#include "worker/hvd/gpu/gpu_error.h"
#include "worker/hvd/gpu/visible_devices.h"

namespace hvdrun {

GpuDevice::GpuDevice(const CudaDriver& driver, int ordinal) : api_(driver.api), ordinal_(ordinal) {
  const std::string who = "GPU " + std::to_string(ordinal) + ": ";
  check_cuda(api_, api_.device_get(&device_, ordinal), who + "cuDeviceGet");
  std::array<char, 256> name{};
  check_cuda(api_, api_.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device_),
             who + "cuDeviceGetName");
  name_ = one_line(name.data());
  check_cuda(api_, api_.device_get_uuid(&uuid_, device_), who + "cuDeviceGetUuid");
  check_cuda(api_, api_.primary_retain(&context_, device_), who + "cuDevicePrimaryCtxRetain");
  if (const cuda::Result result = api_.context_set_current(context_); result != cuda::kSuccess) {
    api_.primary_release(device_);
    check_cuda(api_, result, who + "cuCtxSetCurrent");
  }
}

GpuDevice::~GpuDevice() {
  if (const DriverPass pass; pass) api_.primary_release(device_);
}

std::string GpuDevice::words() const {
  return "GPU " + std::to_string(ordinal_) + (name_.empty() ? "" : " (" + name_ + ")");
}

bool GpuDevice::has_closed() const {
  const DriverPass pass;
  if (!pass) return true;
  const cuda::Result result = api_.context_push(context_);
  cuda::Context popped = nullptr;
  if (result == cuda::kSuccess) api_.context_pop(&popped);
  return result == cuda::kDeinitialized;
}

CurrentDevice::CurrentDevice(const GpuDevice& device, DriverPass::For purpose)
    : pass_(purpose), api_(device.api()) {
  if (!pass_)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     device.words() + ": the process is about to end (exit)");
  check_cuda(api_, api_.context_push(device.context()), device.words() + ": cuCtxPushCurrent");
  api_.thread_capture_mode(&capture_mode_);
}

CurrentDevice::~CurrentDevice() {
  api_.thread_capture_mode(&capture_mode_);
  cuda::Context popped = nullptr;
  api_.context_pop(&popped);
}

SelectedDevice select_device(int local_rank, int local_size, const char* visible_devices,
                             const std::string& driver_file, bool may_share) {
  SelectedDevice selected;
  const VisibleDevices visible = parse_visible_devices(visible_devices);
  if (visible.none()) {
    selected.why = std::string(kVisibleDevicesVariable) + " names no GPU";
    return selected;
  }
  Loaded<CudaDriver> driver = load_cuda_driver(driver_file);
  if (driver.value == nullptr) {
    selected.why = std::move(driver.why);
    return selected;
  }
  const int ordinal =
      choose_device(local_rank, local_size, driver.value->devices, visible, may_share);
  selected.driver = std::move(driver.value);
  selected.device = std::make_unique<GpuDevice>(*selected.driver, ordinal);
  return selected;
}

}  // namespace hvdrun
