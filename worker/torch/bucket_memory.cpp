#include "worker/torch/bucket_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "worker/torch/bucket_plan.h"

namespace hvdrun {

std::shared_ptr<void> allocate_bucket_memory(std::size_t bytes) {
  const std::size_t rounded =
      (bytes + kGradientAlignment - 1) / kGradientAlignment * kGradientAlignment;
  void* memory = std::aligned_alloc(kGradientAlignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  return {memory, [](void* pointer) { std::free(pointer); }};
}

}  // namespace hvdrun
