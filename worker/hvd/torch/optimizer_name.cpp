#include "worker/hvd/torch/optimizer_name.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace hvdrun {
namespace {

struct Numbers {
  std::mutex mutex;
  std::map<int, std::int64_t> next;  // by the id of the set
};

Numbers& numbers() {
  static Numbers all;
  return all;
}

}  // namespace

std::int64_t next_optimizer_number(const hvd::ProcessSet& set) {
  const std::lock_guard<std::mutex> lock(numbers().mutex);
  return numbers().next[set.id];
}

std::string optimizer_name(const hvd::ProcessSet& set, std::int64_t number) {
  const std::lock_guard<std::mutex> lock(numbers().mutex);
  std::int64_t& next = numbers().next[set.id];
  next = std::max(next, number + 1);
  return "DistributedOptimizer." + std::to_string(number);
}

}  // namespace hvdrun
