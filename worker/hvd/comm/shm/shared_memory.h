// Memory of one rank that the other ranks of its host can map, so that a collective reads and
// writes it where it is.
//
// Each region is a segment of its own: its bytes, and behind them one page in which its owner says
// that the region is given up. A peer maps a region when a collective first names it and keeps the
// mapping until then. Regions of other ranks are known by owner and number, never by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "worker/hvd/comm/shm/mapping.h"

namespace hvdrun {

// Where the ranks of a host get memory that they share, by name.
class SegmentSource {
 public:
  SegmentSource() = default;
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;
  virtual ~SegmentSource() = default;

  // The same memory for every rank that asks for the name, zeroed in the beginning. Throws
  // hvd::Error. From any thread.
  virtual std::shared_ptr<const Mapping> open(const std::string& name, std::size_t bytes) = 0;
  // Nobody will ask for it again; who has it mapped keeps it. From any thread.
  virtual void drop(const std::string& name) noexcept = 0;
};

// A place in a region, as it travels between ranks. id 0: not in shared memory.
struct SharedPlace {
  std::uint32_t id = 0;
  std::uint32_t pages = 0;  // of the region, without the last one
  std::uint64_t offset = 0;
};
static_assert(sizeof(SharedPlace) == 16);

class SharedMemory {
 public:
  // `generation` tells the jobs apart that one process joins one after the other.
  SharedMemory(std::shared_ptr<SegmentSource> source, std::size_t rank, std::uint32_t generation);

  // Zeroed, aligned to a page. The memory lives until the mapping is destroyed. From any thread.
  std::pair<void*, std::shared_ptr<const Mapping>> allocate(std::size_t bytes) HVD_EXCLUDES(mutex_);
  // Tells the peers that they need it no more. Not while a collective uses it. From any thread.
  void release(const void* memory) noexcept HVD_EXCLUDES(mutex_);
  // Where this rank's `bytes` at `memory` are, when all of them are in one region.
  SharedPlace find(const void* memory, std::size_t bytes) const HVD_EXCLUDES(mutex_);

  // Only for the thread that runs the collective: the place in memory of this process. Throws when
  // it cannot be mapped, or when place and region do not fit `bytes`.
  std::byte* map(std::size_t rank, const SharedPlace& place, std::size_t bytes)
      HVD_EXCLUDES(mutex_);
  // Unmaps what its owners have given up. Likewise.
  void forget_released();
  std::size_t mapped_peers() const { return peers_.size(); }

 private:
  struct Region {
    std::uint32_t id = 0;
    std::size_t bytes = 0;
    std::shared_ptr<const Mapping> mapping;
  };
  std::string name_of(std::size_t rank, std::uint32_t id) const;

  const std::shared_ptr<SegmentSource> source_;
  const std::size_t rank_;
  const std::uint32_t generation_;

  mutable Mutex mutex_;
  std::uint32_t last_id_ HVD_GUARDED_BY(mutex_) = 0;
  std::map<const std::byte*, Region> own_ HVD_GUARDED_BY(mutex_);  // by address
  std::map<std::pair<std::size_t, std::uint32_t>, std::shared_ptr<const Mapping>> peers_;
};

}  // namespace hvdrun
