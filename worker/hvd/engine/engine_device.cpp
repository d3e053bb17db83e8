// What an engine does for its lane only.
#include <memory>
#include <utility>
#include <vector>

#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/engine/engine.h"

namespace hvdrun {

// What is on the caller's stream by now comes before the operation.
void Engine::begin_device(const Operation& operation) {
  if (!gpu_)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     describe(operation) + ": this rank has no GPU: " + options_.no_gpu);
  if (!operation.device->split) gpu_->mark(*operation.device);
}

std::unique_ptr<NcclCommunicator> Engine::split_gpu(std::vector<int> members) {
  if (!gpu_) return nullptr;
  Operation operation;  // a barrier: no other operation runs beside it, on any rank
  operation.device = std::make_shared<DeviceUse>();
  operation.device->split = std::make_shared<GpuSplit>();
  operation.device->split->members = std::move(members);
  run(operation);
  return std::move(operation.device->split->made);
}

void Engine::adopt_gpu(std::unique_ptr<NcclCommunicator> made) { gpu_->adopt(std::move(made)); }

}  // namespace hvdrun
