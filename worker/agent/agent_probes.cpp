// An agent's answers about its ranks' processes.
#include <utility>

#include "worker/agent/agent.h"
#include "worker/agent/stalls/process_picture.h"

namespace hvdrun {

void Agent::probe_ranks(const ProbeRanks& message) {
  RankProbes answer;
  answer.request = message.request;
  for (const auto& [pid, worker] : workers_)
    answer.ranks.push_back(picture_process(worker.rank, pid).probe);
  cut_stacks(answer.ranks, limits::kMaxPictures);
  up(answer);
}

// The workers have said what they wait for, or did not in time; of those that never joined only the
// kernel can tell something.
void Agent::send_pictures(HostSurvey::Answer answer) {
  RankPictures message;
  message.request = answer.request;
  for (const auto& [pid, worker] : workers_) {
    // A shell may stand between us and the program that has joined.
    const pid_t joined = workers_server_->pid_of(worker.rank);
    RankPicture picture = picture_process(worker.rank, joined > 0 ? joined : pid);
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
