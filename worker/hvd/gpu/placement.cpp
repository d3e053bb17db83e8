#include "worker/hvd/gpu/placement.h"

#include <algorithm>
#include <map>

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {
namespace {

// "rank 3", "ranks 0, 1 and 5 more"
std::string rank_words(std::span<const Placement> ranks, bool on_gpu) {
  constexpr std::size_t kNamed = 8;
  std::size_t found = 0;
  std::string list;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if ((ranks[rank].on_gpu != 0) != on_gpu) continue;
    if (++found <= kNamed) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (found > kNamed) list += " and " + std::to_string(found - kNamed) + " more";
  return (found == 1 ? "rank " : "ranks ") + list;
}

}  // namespace

std::string reason_of(const Placement& placement) {
  const std::size_t length = std::min<std::size_t>(placement.why_length, placement.why.size());
  return one_line(std::string_view(placement.why.data(), length));
}

Placement placed_on_gpu(const cuda::Uuid& uuid) {
  Placement placement;
  placement.on_gpu = 1;
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), placement.uuid.begin());
  return placement;
}

Placement placed_on_cpu(const std::string& why) {
  Placement placement;
  const std::size_t length = std::min(why.size(), placement.why.size());
  placement.why_length = static_cast<std::uint8_t>(length);
  std::copy_n(why.begin(), length, placement.why.begin());
  return placement;
}

std::string check_placements(std::span<const Placement> ranks, bool may_share) {
  const auto on_cpu = std::find_if(ranks.begin(), ranks.end(),
                                   [](const Placement& rank) { return rank.on_gpu == 0; });
  const bool some_gpu = std::any_of(ranks.begin(), ranks.end(),
                                    [](const Placement& rank) { return rank.on_gpu != 0; });
  if (!some_gpu) return {};
  if (on_cpu != ranks.end())
    return rank_words(ranks, true) +
           (std::count_if(ranks.begin(), ranks.end(),
                          [](const Placement& rank) { return rank.on_gpu != 0; }) == 1
                ? " has a GPU, but "
                : " have GPUs, but ") +
           rank_words(ranks, false) + " not (rank " + std::to_string(on_cpu - ranks.begin()) +
           ": " + reason_of(*on_cpu) +
           "); give every rank one, or run all on the CPU with --gpus none";
  if (may_share) return {};
  std::map<std::array<char, 16>, std::size_t> owner;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (const auto [first, fresh] = owner.emplace(ranks[rank].uuid, rank); !fresh)
      return "ranks " + std::to_string(first->second) + " and " + std::to_string(rank) +
             " have the same GPU, which NCCL does not allow; start fewer ranks there, or give "
             "them GPUs of their own with --gpus";
  return {};
}

}  // namespace hvdrun
