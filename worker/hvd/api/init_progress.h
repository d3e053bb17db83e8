// The progress of this process in hvd::init, for the launcher, which asks when ranks wait there.
// All functions may be called from any thread.
#pragma once

#include <atomic>
#include <memory>

#include "common/wire/stall_messages.h"
#include "worker/hvd/comm/link/awaited_links.h"

namespace hvdrun {

class InitProgress {
 public:
  // It is about to wait for the others, or has something of its own to do.
  void waits() { waits_ = true; }
  void works() { waits_ = false; }
  // The connections that it waits for.
  const std::shared_ptr<AwaitedLinks>& links() const { return links_; }

  StallReport report() const {
    StallReport report;
    report.meeting = waits_;
    report.unconnected = links_->ranks();
    return report;
  }

 private:
  std::atomic<bool> waits_{false};
  const std::shared_ptr<AwaitedLinks> links_ = std::make_shared<AwaitedLinks>();
};

}  // namespace hvdrun
