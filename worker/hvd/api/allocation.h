// hvd::alloc and hvd::free: memory that other ranks can map, where there are any.
#pragma once

#include <cstddef>
#include <memory>

#include "worker/hvd/comm/shm/shared_memory.h"

namespace hvdrun {

// Zeroed, aligned to a page. Without `memory` it is this process's alone. Throws hvd::Error.
void* allocate(std::size_t bytes, const std::shared_ptr<SharedMemory>& memory);

// Throws Error(invalid_argument) for what allocate() has not returned, or not any more.
void deallocate(void* memory);

}  // namespace hvdrun
