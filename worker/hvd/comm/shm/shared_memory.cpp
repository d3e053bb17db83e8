#include "worker/hvd/comm/shm/shared_memory.h"

#include <atomic>
#include <new>

namespace hvdrun {
namespace {

constexpr std::size_t kPage = 4096;
// Pages are counted in 32 bits.
constexpr std::size_t kMaxBytes = (std::size_t{1} << 32) * kPage - 2 * kPage;

// At the beginning of a region's last page. Zeroed memory is a valid one.
using Released = std::atomic<std::uint32_t>;
static_assert(Released::is_always_lock_free);

Released& released_flag(const Mapping& mapping) {
  return *std::launder(reinterpret_cast<Released*>(mapping.data() + mapping.size() - kPage));
}

}  // namespace

SharedMemory::SharedMemory(std::shared_ptr<SegmentSource> source, std::size_t rank,
                           std::uint32_t generation)
    : source_(std::move(source)), rank_(rank), generation_(generation) {}

std::string SharedMemory::name_of(std::size_t rank, std::uint32_t id) const {
  return "mem/" + std::to_string(rank) + "/" + std::to_string(generation_) + "/" +
         std::to_string(id);
}

std::pair<void*, std::shared_ptr<const Mapping>> SharedMemory::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > kMaxBytes)
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     "hvd::alloc: " + std::to_string(bytes) + " bytes are not possible");
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  std::uint32_t id = 0;
  {
    const MutexLock lock(mutex_);
    id = ++last_id_;
  }
  const auto mapping = source_->open(name_of(rank_, id), rounded + kPage);
  const MutexLock lock(mutex_);
  own_.emplace(mapping->data(), Region{id, rounded, mapping});
  return {mapping->data(), mapping};
}

void SharedMemory::release(const void* memory) noexcept {
  std::string name;
  {
    const MutexLock lock(mutex_);
    const auto found = own_.find(static_cast<const std::byte*>(memory));
    if (found == own_.end()) return;
    released_flag(*found->second.mapping).store(1, std::memory_order_release);
    name = name_of(rank_, found->second.id);
    own_.erase(found);
  }
  source_->drop(name);
}

SharedPlace SharedMemory::find(const void* memory, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const MutexLock lock(mutex_);
  auto found = own_.upper_bound(begin);
  if (found == own_.begin()) return {};
  --found;
  const Region& region = found->second;
  const auto offset = static_cast<std::size_t>(begin - found->first);
  if (offset > region.bytes || bytes > region.bytes - offset) return {};
  return {region.id, static_cast<std::uint32_t>(region.bytes / kPage), offset};
}

std::byte* SharedMemory::map(std::size_t rank, const SharedPlace& place, std::size_t bytes) {
  const std::size_t region = std::size_t{place.pages} * kPage;
  // A peer's numbers: never trusted.
  if (place.id == 0 || place.offset > region || bytes > region - place.offset)
    throw hvd::Error(hvd::ErrorCode::internal,
                     "rank " + std::to_string(rank) + " named shared memory that it does not have");
  if (rank == rank_) {
    const MutexLock lock(mutex_);
    for (const auto& [address, own] : own_)
      if (own.id == place.id) return own.mapping->data() + place.offset;
  }
  auto& mapping = peers_[{rank, place.id}];
  if (!mapping) mapping = source_->open(name_of(rank, place.id), region + kPage);
  return mapping->data() + place.offset;
}

void SharedMemory::forget_released() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    const bool gone =
        !peer->second || released_flag(*peer->second).load(std::memory_order_acquire) != 0;
    peer = gone ? peers_.erase(peer) : std::next(peer);
  }
}

}  // namespace hvdrun
