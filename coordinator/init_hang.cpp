#include "coordinator/init_hang.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/limits.h"
#include "common/base/rank_ranges.h"
#include "coordinator/stall_text.h"

namespace hvdrun {
namespace {

// A few are named, the others counted; where no two hosts reach each other there are as many as the
// square of the ranks.
constexpr std::size_t kMaxLinks = 65'536;

std::string link_words(const std::pair<std::uint32_t, std::uint32_t>& link,
                       const Membership& members) {
  return rank_on_host(link.first, members) + " and " + rank_on_host(link.second, members) +
         " get no connection to each other";
}

}  // namespace

InitHang find_init_hang(const std::vector<std::uint32_t>& inside,
                        const std::vector<std::uint32_t>& outside, const SurveyedRanks& ranks,
                        std::uint32_t size) {
  InitHang hang;
  hang.waiting = inside.size();
  for (const std::uint32_t rank : outside) {
    const auto found = ranks.find(rank);
    if (found == ranks.end() || !found->second.answered || !found->second.report.meeting) {
      hang.ranks.push_back(rank);
      continue;
    }
    ++hang.waiting;
    for (const std::uint32_t other : found->second.report.unconnected) {
      if (other == rank || other >= size) continue;
      hang.links_cut = hang.links.size() == kMaxLinks;
      if (hang.links_cut) break;
      hang.links.emplace_back(std::min(rank, other), std::max(rank, other));
    }
  }
  // A rank that waits for a connection to a stopped one cannot help it.
  if (!hang.ranks.empty()) hang.links.clear();
  std::sort(hang.links.begin(), hang.links.end());
  hang.links.erase(std::unique(hang.links.begin(), hang.links.end()), hang.links.end());
  return hang;
}

std::string init_hang_cause(const InitHang& hang, const Membership& members) {
  if (!hang.ranks.empty())
    return "rank " + rank_ranges(hang.ranks, limits::kMaxNamedRanges) +
           (hang.ranks.size() == 1 ? " hangs" : " hang") + " in hvd::init";
  if (hang.links.empty()) return "all ranks are in hvd::init, which does not get on";
  std::string text = link_words(hang.links.front(), members) + " in hvd::init";
  if (hang.links.size() > 1)
    text += std::string(", nor do ") + (hang.links_cut ? "more than " : "") +
            std::to_string(hang.links.size() - 1) + " other pairs";
  return text;
}

std::vector<std::uint32_t> init_hang_culprits(const InitHang& hang) {
  if (!hang.ranks.empty() || hang.links.empty()) return hang.ranks;
  std::map<std::uint32_t, std::size_t> pairs;
  for (const auto& [lower, higher] : hang.links) {
    ++pairs[lower];
    ++pairs[higher];
  }
  const auto most = std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  return {most->first};
}

std::string init_hang_words(const InitHang& hang) {
  return hang.ranks.empty() ? "connections between hosts"
                            : "rank " + rank_ranges(hang.ranks, limits::kMaxNamedRanges);
}

std::vector<std::string> init_hang_lines(const InitHang& hang, const SurveyedRanks& ranks,
                                         const Membership& members) {
  if (!hang.ranks.empty()) return missing_lines(hang.ranks, ranks, members);
  std::vector<std::string> lines;
  const std::size_t named = std::min(hang.links.size(), kNamedRanks);
  for (std::size_t i = 0; i < named; ++i)
    lines.push_back("  " + link_words(hang.links[i], members));
  if (named < hang.links.size())
    lines.push_back("  and " + std::to_string(hang.links.size() - named) + " more pairs");
  return lines;
}

}  // namespace hvdrun
