#include "worker/hvd/api/select_gpu.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/gpu/dead_memory.h"
#include "worker/hvd/gpu/placement.h"
#include "worker/hvd/gpu/visible_devices.h"

namespace hvdrun {

GpuChoice choose_gpu(const EnvironmentLookup& lookup, int local_rank, int local_size) {
  GpuChoice choice;
  const std::optional<std::string> visible = lookup(kVisibleDevicesVariable);
  choice.may_share = lookup(kShareGpuVariable) == "1";
  try {
    choice.selected = select_device(local_rank, local_size, visible ? visible->c_str() : nullptr,
                                    {}, choice.may_share);
  } catch (const hvd::Error& error) {
    // Thrown when the others know it: they would wait for this rank.
    choice.error.emplace(error.code(), error.what());
    choice.selected.why = error.what();
  }
  return choice;
}

GpuChoice choose_gpu_of_lost(const EnvironmentLookup& lookup, int local_rank, int local_size) {
  GpuChoice choice = choose_gpu(lookup, local_rank, local_size);
  if (choice.selected.device && await_dead_memory(*choice.selected.device) == DeadMemory::some)
    std::fprintf(stderr, "hvd: %s has memory of processes that have ended, after %s\n",
                 choice.selected.device->words().c_str(),
                 seconds_text(kDeadMemoryPatience).c_str());
  return choice;
}

void agree_on_gpus(const GpuChoice& own, Communicator& communicator,
                   std::chrono::milliseconds timeout) {
  const CallOptions options{.timeout = timeout};
  const bool on_gpu = own.selected.device != nullptr;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  constexpr std::int32_t kFailed = 2;
  const std::int32_t state = own.error ? kFailed : on_gpu ? 1 : 0;
  std::int32_t some = state;
  communicator.allreduce(&some, &some, 1, {hvd::DataType::int32, hvd::ReduceOp::max}, options);
  if (some == 0) return;
  const Placement mine =
      on_gpu ? placed_on_gpu(own.selected.device->uuid()) : placed_on_cpu(own.selected.why);
  std::vector<Placement> all(ranks);
  const std::vector<std::size_t> counts(ranks, sizeof mine);
  communicator.allgather(&mine, all.data(), counts.data(), hvd::DataType::uint8, options);
  const std::string fault = check_placements(all, own.may_share);
  if (!fault.empty()) {
    if (own.error) throw hvd::Error(*own.error);
    throw hvd::Error(hvd::ErrorCode::unavailable, fault);
  }
  if (some != kFailed) return;
  // Nobody here has a GPU, and somebody should have had one.
  std::vector<std::int32_t> states(ranks);
  communicator.allgather(&state, states.data(), std::vector<std::size_t>(ranks, 1).data(),
                         hvd::DataType::int32, options);
  if (own.error) throw hvd::Error(*own.error);
  const auto failed = std::find(states.begin(), states.end(), kFailed) - states.begin();
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   "rank " + std::to_string(failed) +
                       " cannot take a GPU: " + reason_of(all[static_cast<std::size_t>(failed)]));
}

std::shared_ptr<RankGpu> take_gpu(GpuChoice choice, const EnvironmentLookup& lookup,
                                  GpuWatch::OnTrouble on_trouble) {
  if (choice.selected.device == nullptr) return nullptr;
  return std::make_shared<RankGpu>(
      std::move(choice.selected), lookup(kNcclLibraryVariable).value_or(""), std::move(on_trouble));
}

int usable_nccl_version(const EnvironmentLookup& lookup) {
  static const int version = [&] {
    const Loaded<NcclLibrary> nccl = load_nccl(lookup(kNcclLibraryVariable).value_or(""));
    return nccl.value ? nccl.value->version : 0;
  }();
  return version;
}

}  // namespace hvdrun
