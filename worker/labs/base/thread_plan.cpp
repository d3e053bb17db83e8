#include "worker/labs/base/thread_plan.h"

#include <algorithm>

namespace hvdrun {
namespace {

// On a CPU a model takes longer than its images: ResNet-50 a hundred times, the small nets of the
// labs' pages about as long.
constexpr std::size_t kDecodingPart = 4;

}  // namespace

ThreadPlan plan_threads(const ThreadDemand& demand) {
  if (demand.decoding > 0) return {demand.decoding, demand.computing};
  const auto ranks = static_cast<std::size_t>(std::max(1, demand.local_ranks));
  const std::size_t share = std::max<std::size_t>(1, demand.cores / ranks);
  const auto at_least_one = [](std::size_t threads) { return std::max<std::size_t>(1, threads); };
  const std::size_t decoding = at_least_one(demand.on_gpu ? share - 1 : share / kDecodingPart);
  return {decoding, std::min(demand.computing, at_least_one(share - decoding))};
}

}  // namespace hvdrun
