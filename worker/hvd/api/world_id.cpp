#include "worker/hvd/api/world_id.h"

#include <cstring>

#include "worker/hvd/gpu/loader.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun {

std::string make_world_id(const GpuChoice& choice, int rank, int size,
                          const EnvironmentLookup& lookup) {
  if (rank != 0 || size == 1 || choice.selected.device == nullptr) return {};
  const Loaded<NcclLibrary> nccl = load_nccl(lookup(kNcclLibraryVariable).value_or(""));
  if (nccl.value == nullptr) return {};
  try {
    const nccl::UniqueId id = NcclCommunicator::make_id(*nccl.value);
    return {id.bytes, sizeof id.bytes};
  } catch (const hvd::Error&) {
    // The first operation that needs one tries again, and says why not.
    return {};
  }
}

std::optional<nccl::UniqueId> world_id_of(const std::string& blob) {
  nccl::UniqueId id{};
  if (blob.size() != sizeof id.bytes) return std::nullopt;
  std::memcpy(id.bytes, blob.data(), sizeof id.bytes);
  return id;
}

}  // namespace hvdrun
