// The pipeline's threads where memory ends while they are made.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include <catch2/catch.hpp>

#include "worker/data/input_pipeline.h"

namespace {

// How many allocations of this thread still succeed; below zero: all.
thread_local int allocations_left = -1;

}  // namespace

// Of the whole test program; they count only where a test asks for it.
void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hvdrun {
namespace {

class NoImages final : public ImageSource {
 public:
  std::size_t size() const override { return 0; }
  std::int64_t classes() const override { return 1; }
  std::uint32_t checksum() const override { return 0; }
  std::optional<EncodedImage> read(std::size_t, std::string&) const override { return {}; }
};

// A pipeline whose memory ends after so many allocations: made, or an error.
bool makes_pipeline(int allocations) {
  std::shared_ptr<const ImageSource> source = std::make_shared<NoImages>();
  PipelineOptions options;
  options.threads = 3;
  std::unique_ptr<InputPipeline> pipeline;
  allocations_left = allocations;
  try {
    pipeline = std::make_unique<InputPipeline>(std::move(source), options);
  } catch (const std::bad_alloc&) {
  }
  allocations_left = -1;
  return pipeline != nullptr;
}

TEST_CASE("where memory ends while threads are made, those that there are end too", "[pipeline]") {
  int made = 0;
  for (int allocations = 0; allocations < 20; ++allocations)
    made += makes_pipeline(allocations) ? 1 : 0;
  // With one thread, two, and all three at least; without memory for the first it is an error.
  CHECK(made > 3);
  CHECK(made < 20);
}

}  // namespace
}  // namespace hvdrun
