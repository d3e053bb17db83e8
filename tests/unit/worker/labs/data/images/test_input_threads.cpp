// The pipeline's threads where memory ends while they are made.
#include <memory>
#include <new>

#include "tests/catch.h"
#include "tests/failing_memory.h"
#include "worker/labs/data/images/input_pipeline.h"

namespace hvdrun {
namespace {

class NoImages final : public ImageSource {
 public:
  std::size_t size() const override { return 0; }
  std::int64_t classes() const override { return 1; }
  std::uint32_t checksum() const override { return 0; }
  std::optional<EncodedImage> read(std::size_t, std::string&) const override { return {}; }
};

// True when a pipeline is made although this allocation fails.
bool makes_pipeline(int allocation) {
  std::shared_ptr<const ImageSource> source = std::make_shared<NoImages>();
  PipelineOptions options;
  options.threads = 3;
  std::unique_ptr<InputPipeline> pipeline;
  test::failing_allocation = allocation;
  try {
    pipeline = std::make_unique<InputPipeline>(std::move(source), options);
  } catch (const std::bad_alloc&) {
  }
  test::failing_allocation = -1;
  return pipeline != nullptr;
}

TEST_CASE("where memory ends while threads are made, those that there are end too", "[pipeline]") {
  int made = 0;
  for (int allocation = 0; allocation < 20; ++allocation)
    made += makes_pipeline(allocation) ? 1 : 0;
  // With one thread, two, and all three at least; without memory for the first it is an error.
  CHECK(made > 3);
  CHECK(made < 20);
}

}  // namespace
}  // namespace hvdrun
