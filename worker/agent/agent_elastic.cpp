// An elastic job's slots: a process that is lost is followed by another, in the next epoch.
#include <algorithm>
#include <signal.h>

#include "common/net/hmac_sha256.h"
#include "common/process/process_tree.h"
#include "worker/agent/agent.h"

namespace hvdrun {

void Agent::begin_epoch(const BeginEpoch& message, std::uint32_t epoch) {
  if (!again_ || epoch <= epoch_) return give_up();
  epoch_ = epoch;
  std::string key;
  if (again_->host_count > 1) key = hmac_sha256(bootstrap_.secret, "data " + std::to_string(epoch));
  workers_server_->begin_epoch(epoch, message.here, std::move(key));
}

void Agent::start_again(const StartSlot& message) {
  if (!again_) return give_up();
  const auto slot =
      std::find_if(again_->slots.begin(), again_->slots.end(),
                   [&](const RankPlace& place) { return place.rank == message.slot; });
  if (slot == again_->slots.end()) return give_up();
  workers_server_->slot_restarts(message.slot);
  // Processes that the last one has left behind hold its pipes and its GPU.
  if (const auto last = last_process_.find(message.slot); last != last_process_.end())
    kill_session(last->second);
  told_of_loss_.erase(message.slot);
  start_worker(*again_, *slot, workers_address(), message.start);
}

void Agent::end_slot(std::uint32_t slot) {
  for (const auto& [pid, worker] : workers_)
    if (worker.rank == slot) ::kill(-pid, SIGKILL);
}

}  // namespace hvdrun
