#include "common/net/strangers.h"

#include <algorithm>

namespace hvdrun {
namespace {

// Has a blank, so it is no address.
constexpr const char* kOthers = "other addresses";

}  // namespace

std::optional<std::string> Strangers::refused(const std::string& address, const std::string& why,
                                              TimePoint now) {
  const bool told_apart = from_.contains(address) || from_.size() < kMaxAddresses;
  const auto [at, is_first] = from_.try_emplace(told_apart ? address : kOthers);
  if (is_first) {
    at->second.next = now + at->second.pause;
    return "refused a connection from " + address + ": " + why;
  }
  ++at->second.unsaid;
  return std::nullopt;
}

std::vector<std::string> Strangers::take_counts(TimePoint now) {
  std::vector<std::string> lines;
  for (auto& [address, from] : from_) {
    if (from.unsaid == 0 || from.next > now) continue;
    lines.push_back(std::to_string(from.unsaid) +
                    (from.unsaid == 1 ? " more connection" : " more connections") + " from " +
                    address + " that did not belong to the job");
    from.unsaid = 0;
    from.pause = std::min(2 * from.pause, kLongestPause);
    from.next = now + from.pause;
  }
  return lines;
}

std::optional<TimePoint> Strangers::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [address, from] : from_)
    if (from.unsaid > 0 && (!next || from.next < *next)) next = from.next;
  return next;
}

}  // namespace hvdrun
