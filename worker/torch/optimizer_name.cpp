#include "worker/torch/optimizer_name.h"

#include <map>
#include <mutex>

namespace hvdrun {

std::string next_optimizer_name(const hvd::ProcessSet& set) {
  static std::mutex mutex;
  static std::map<int, unsigned> made;
  const std::lock_guard<std::mutex> lock(mutex);
  return "DistributedOptimizer." + std::to_string(made[set.id]++);
}

}  // namespace hvdrun
