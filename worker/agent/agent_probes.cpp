// What an agent tells of its ranks' processes when it is asked.
#include <unistd.h>
#include <utility>

#include "worker/agent/agent.h"
#include "worker/agent/process_probe.h"
#include "worker/agent/stall_probe.h"

namespace hvdrun {

void Agent::probe_ranks(const ProbeRanks& message) {
  RankProbes answer;
  answer.request = message.request;
  for (const auto& [pid, worker] : workers_)
    answer.ranks.push_back(probe_process(worker.rank, pid));
  up(answer);
}

// The workers have said what they wait for, or did not in time; of those that never joined only the
// kernel can tell something.
void Agent::send_pictures(StallDesk::Answer answer) {
  RankPictures message;
  message.request = answer.request;
  for (const auto& [pid, worker] : workers_) {
    // A shell may stand between us and the program that has joined. What that says of itself holds
    // only among our process numbers, so the process must be of the session that we have made.
    const pid_t joined = workers_server_->pid_of(worker.rank);
    const bool is_below = joined > 0 && ::getsid(joined) == pid;
    RankPicture picture = picture_process(worker.rank, is_below ? joined : pid);
    if (const auto said = answer.ranks.find(worker.rank); said != answer.ranks.end()) {
      picture.answered = said->second.answered;
      picture.report = std::move(said->second.report);
    }
    message.ranks.push_back(std::move(picture));
  }
  cut_pictures(message.ranks, limits::kMaxPictures);
  up(message);
}

}  // namespace hvdrun
