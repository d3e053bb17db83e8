#include "worker/hvd/torch/bucket_memory.h"

#include <cstring>
#include <new>

#include <hvd/hvd.h>

#include "worker/hvd/torch/bucket_plan.h"

namespace hvdrun {
namespace {

constexpr std::align_val_t kAlignment{kGradientAlignment};

}  // namespace

std::shared_ptr<void> allocate_bucket_memory(std::size_t bytes) {
  static_assert(4096 % kGradientAlignment == 0, "hvd::alloc aligns to pages");
  try {
    return {hvd::alloc(bytes), [](void* memory) { hvd::free(memory); }};
  } catch (const hvd::Error& error) {
    // A host has so many segments and no more. Other memory is reduced as well, only slower, and a
    // rank that failed here alone would leave the others waiting.
    if (error.code() != hvd::ErrorCode::unavailable) throw;
  }
  void* const memory = ::operator new(bytes, kAlignment);
  std::memset(memory, 0, bytes);
  return {memory, [](void* old) { ::operator delete(old, kAlignment); }};
}

}  // namespace hvdrun
