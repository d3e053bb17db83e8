#include "cli/openers/opening_retry.h"

#include <algorithm>

namespace hvdrun {

// Half of it to one and a half.
std::chrono::milliseconds OpeningRetry::spread(std::chrono::milliseconds pause) const {
  return pause / 2 + pause * spread_ / kSpread;
}

std::optional<OpeningRetry::Again> OpeningRetry::failed(const Fault& fault) {
  if (fault.hung_up && ++hung_up_ < kTries)
    return Again{spread(kFirstPause * (1 << hung_up_)), true, false};
  if (!waits_ || !fault.not_there_yet) return std::nullopt;
  hung_up_ = 0;
  const bool is_news = wait_.count() == 0;
  wait_ = is_news ? kFirstWait : std::min(2 * wait_, kLongestWait);
  return Again{spread(wait_), false, is_news};
}

}  // namespace hvdrun
