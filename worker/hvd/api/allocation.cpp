#include "worker/hvd/api/allocation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/mutex.h"
#include "worker/hvd/comm/shm/mapping.h"

namespace hvdrun {
namespace {

struct Allocation {
  std::shared_ptr<const Mapping> mapping;
  std::weak_ptr<SharedMemory> owner;  // gone with its job; the memory stays
};

struct Allocations {
  Mutex mutex;
  std::map<void*, Allocation> all HVD_GUARDED_BY(mutex);
};

// Never destroyed: memory is freed by destructors of other libraries at exit, too.
Allocations& allocations() {
  static auto* const instance = new Allocations;
  return *instance;
}

}  // namespace

void* allocate(std::size_t bytes, const std::shared_ptr<SharedMemory>& memory) {
  bytes = std::max<std::size_t>(bytes, 1);
  Allocation allocation;
  if (memory) {
    allocation.mapping = memory->allocate(bytes).second;
    allocation.owner = memory;
  } else {
    allocation.mapping = std::make_shared<const Mapping>(Mapping::anonymous(bytes));
  }
  void* const address = allocation.mapping->data();
  Allocations& known = allocations();
  const MutexLock lock(known.mutex);
  known.all.insert_or_assign(address, std::move(allocation));
  return address;
}

void deallocate(void* memory) {
  if (memory == nullptr) return;
  Allocation allocation;
  {
    Allocations& known = allocations();
    const MutexLock lock(known.mutex);
    const auto found = known.all.find(memory);
    if (found == known.all.end())
      throw hvd::Error(hvd::ErrorCode::invalid_argument,
                       "hvd::free: this memory does not come from hvd::alloc, or is free already");
    allocation = std::move(found->second);
    known.all.erase(found);
  }
  if (const auto owner = allocation.owner.lock()) owner->release(memory);
}

}  // namespace hvdrun
