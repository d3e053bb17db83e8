#include "worker/api/select_gpu.h"

#include <utility>
#include <vector>

#include "worker/gpu/placement.h"
#include "worker/gpu/visible_devices.h"

namespace hvdrun {

GpuChoice choose_gpu(const EnvironmentLookup& lookup, int local_rank, int local_size) {
  GpuChoice choice;
  const std::optional<std::string> visible = lookup(kVisibleDevicesVariable);
  try {
    choice.selected = select_device(local_rank, local_size, visible ? visible->c_str() : nullptr);
  } catch (const hvd::Error& error) {
    // Thrown when the others know it: they would wait for this rank.
    choice.error.emplace(error.code(), error.what());
    choice.selected.why = error.what();
  }
  return choice;
}

void agree_on_gpus(const GpuChoice& own, Communicator& communicator,
                   std::chrono::milliseconds timeout) {
  const CallOptions options{.timeout = timeout};
  const bool on_gpu = own.selected.device != nullptr;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::int32_t some = on_gpu || own.error ? 1 : 0;
  communicator.allreduce(&some, &some, 1, {hvd::DataType::int32, hvd::ReduceOp::max}, options);
  if (some == 0) return;
  const Placement mine =
      on_gpu ? placed_on_gpu(own.selected.device->uuid()) : placed_on_cpu(own.selected.why);
  std::vector<Placement> all(ranks);
  const std::vector<std::size_t> counts(ranks, sizeof mine);
  communicator.allgather(&mine, all.data(), counts.data(), hvd::DataType::uint8, options);
  if (own.error) throw hvd::Error(*own.error);
  const std::string fault = check_placements(all);
  if (!fault.empty()) throw hvd::Error(hvd::ErrorCode::unavailable, fault);
}

std::shared_ptr<RankGpu> take_gpu(GpuChoice choice, const EnvironmentLookup& lookup,
                                  GpuWatch::OnTrouble on_trouble) {
  if (choice.selected.device == nullptr) return nullptr;
  return std::make_shared<RankGpu>(
      std::move(choice.selected), lookup(kNcclLibraryVariable).value_or(""), std::move(on_trouble));
}

}  // namespace hvdrun
