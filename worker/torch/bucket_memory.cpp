#include "worker/torch/bucket_memory.h"

#include <hvd/hvd.h>

#include "worker/torch/bucket_plan.h"

namespace hvdrun {

std::shared_ptr<void> allocate_bucket_memory(std::size_t bytes) {
  static_assert(4096 % kGradientAlignment == 0, "hvd::alloc aligns to pages");
  return {hvd::alloc(bytes), [](void* memory) { hvd::free(memory); }};
}

}  // namespace hvdrun
