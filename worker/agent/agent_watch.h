// A guard's watch over an agent that may be stopped (SIGSTOP). On the coordinator's machine nobody
// else would notice: agents there are not asked for a word.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "common/base/stop_clock.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

class AgentWatch {
 public:
  // Blocks SIGCHLD in this thread (open_child_signals). No host name: the agent is far from its
  // coordinator, which waits for its word, and is not watched.
  AgentWatch(pid_t agent, std::chrono::milliseconds lease, std::string host);

  // For poll(): readable when look() should be called; -1 when nothing is watched.
  int fd() const { return signals_.get(); }
  // For poll(): until look() should be called anyway. -1 while the agent runs.
  int timeout() const;
  // False: the agent has been stopped for the lease. Names a long stop on stderr.
  bool look();

 private:
  using Clock = std::chrono::steady_clock;

  void say(std::string_view what) const;

  pid_t agent_;
  StopClock clock_;
  std::string host_;
  UniqueFd signals_;
};

}  // namespace hvdrun
