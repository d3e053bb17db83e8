#include "worker/agent/agent_watch.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/process/stopped_children.h"

namespace hvdrun {

AgentWatch::AgentWatch(pid_t agent, std::chrono::milliseconds lease, std::string host)
    : agent_(agent), clock_(lease), host_(std::move(host)) {
  if (host_.empty()) return;
  signals_ = open_child_signals();
  if (!signals_) say("cannot be watched: " + std::generic_category().message(errno));
  look();  // it may have stopped before anybody listened
}

int AgentWatch::timeout() const {
  const auto next = clock_.next_look();
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::max(left.count(), decltype(left)::rep{0}));
}

bool AgentWatch::look() {
  if (!signals_) return true;
  drain_child_signals(signals_.get());
  if (has_ended(agent_)) return true;  // who waits for it is about to know
  clock_.saw(stop_change(agent_), Clock::now());
  if (clock_.names_end()) say("goes on");
  const std::string time =
      "has been stopped for " + std::to_string(clock_.stopped_for().count()) + " s; ";
  if (clock_.names_stop()) say(time + "kill -CONT lets it go on");
  if (clock_.is_over()) say(time + "its ranks are ended");
  return !clock_.is_over();
}

// Only if it is taken at once: a guard that waits for a reader of stderr guards nothing.
void AgentWatch::say(std::string_view what) const {
  const std::string line = "hvdrun: the agent of host " + host_ + " (process " +
                           std::to_string(agent_) + ") " + std::string(what) + "\n";
  pollfd err{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&err, 1, 0) > 0 && (err.revents & POLLOUT) != 0)
    (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hvdrun
