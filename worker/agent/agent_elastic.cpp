// An elastic job's slots: a process that is lost is followed by another, in the next epoch.
#include <algorithm>
#include <chrono>
#include <signal.h>
#include <string>
#include <vector>

#include "common/net/hmac_sha256.h"
#include "common/process/process_tree.h"
#include "worker/agent/agent.h"
#include "worker/agent/ranks/dying_process.h"
#include "worker/agent/stalls/process_picture.h"

namespace hvdrun {
namespace {

// Between two looks at the ranks' processes, and for a dead one to end.
constexpr std::chrono::seconds kLookPause{1};
// For one that has been killed to end, until the user is told.
constexpr std::chrono::seconds kEndPatience{10};

}  // namespace

void Agent::watch_for_leave() {
  boost::system::error_code ec;
  leave_signal_.add(SIGTERM, ec);
  leave_signal_.async_wait([this](const auto& failed, int) {
    if (failed) return;
    up(HostLeaving{});
    // Once is enough; it is not to end this agent, either.
    leave_signal_.async_wait([](const auto&, int) {});
  });
}

void Agent::begin_epoch(const BeginEpoch& message, std::uint32_t epoch) {
  if (!again_ || epoch <= epoch_) return give_up();
  epoch_ = epoch;
  if (notifier_) notifier_->stop();
  if (!message.host_address.empty()) again_->host_address = message.host_address;
  std::string key;
  if (!again_->host_address.empty())
    key = hmac_sha256(bootstrap_.secret, "data " + std::to_string(epoch));
  workers_server_->begin_epoch(epoch, message.here, std::move(key), again_->host_address);
}

void Agent::start_again(const StartSlot& message) {
  if (!again_) return give_up();
  const std::uint32_t number = message.slot.rank;
  auto& slots = again_->slots;
  const bool is_new = std::none_of(slots.begin(), slots.end(), [number](const RankPlace& place) {
    return place.rank == number;
  });
  if (is_new) {
    slots.push_back(message.slot);
    pump_.set_ranks(slots.size());
  }
  tell_horovod(message);
  workers_server_->slot_restarts(number);
  // Processes that the last one has left behind hold its pipes and its GPU.
  if (const auto last = last_process_.find(number); last != last_process_.end())
    kill_session(last->second);
  told_of_loss_.erase(number);
  retiring_.erase(number);
  start_worker(*again_, message.slot, workers_address(), message.start, true);
}

void Agent::slot_died(std::uint32_t slot) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [slot](const auto& one) { return one.second.rank == slot; });
  // Its end is on its way to the coordinator.
  if (worker == workers_.end()) return;
  if (!dying_.emplace(slot, Dying{std::chrono::steady_clock::now()}).second) return;
  const bool core = dumps_core(worker->first);
  workers_server_->slot_dying(slot, core ? "it is dumping core" : "its process has died");
  up(SlotDying{slot, core});
}

// A look at each rank costs some 40 us.
void Agent::look_at_ranks() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookPause;
  std::vector<std::uint32_t> dumping;
  for (const auto& [pid, worker] : workers_) {
    const auto found = dying_.find(worker.rank);
    if (found == dying_.end()) {
      if (dumps_core(pid)) dumping.push_back(worker.rank);
      continue;
    }
    Dying& dying = found->second;
    const std::string process = bootstrap_.host_name + ": process " + std::to_string(pid);
    if (!dying.killed && now - dying.since > kLookPause && has_program(pid) && !dumps_core(pid)) {
      up(Log{LogLevel::warn,
             process + " was a rank and runs another program now (exec); it is killed"});
      ::kill(-pid, SIGKILL);
      dying.killed = true;
    } else if (dying.killed && !dying.told && now - dying.since > kEndPatience) {
      dying.told = true;
      up(Log{LogLevel::warn, process + " has been killed and does not end; it is " +
                                 words_of(picture_process(worker.rank, pid).probe) +
                                 ". Its slot is not started again before that"});
    }
  }
  for (const std::uint32_t slot : dumping) slot_died(slot);
}

// The last that the kernel can tell of it may be why it had the others wait. Whatever still keeps
// it, nothing comes of it any more.
void Agent::end_slot(const EndSlot& message) {
  const std::uint32_t slot = message.slot;
  if (!message.is_late) return retire(message);
  for (const auto& [pid, worker] : workers_) {
    if (worker.rank != slot) continue;
    const pid_t joined = workers_server_->pid_of(slot);
    const RankProbe probe = picture_process(slot, joined > 0 ? joined : pid).probe;
    up(Log{LogLevel::warn, bootstrap_.host_name + ": process " + std::to_string(probe.pid) +
                               " of slot " + std::to_string(slot) + " is killed; it was " +
                               words_of(probe)});
    ::kill(-pid, SIGKILL);
  }
  slot_died(slot);
  if (const auto dying = dying_.find(slot); dying != dying_.end()) dying->second.killed = true;
}

// It is not needed any more, so it has the time that any process of the job has to end.
void Agent::retire(const EndSlot& message) {
  const auto here = std::find_if(workers_.begin(), workers_.end(),
                                 [&](const auto& one) { return one.second.rank == message.slot; });
  // Its end is on its way to the coordinator.
  if (here == workers_.end()) return;
  retire_step(here->first,
              retiring_[message.slot].start(std::chrono::steady_clock::now(), message.steps));
  arm_timer();
}

void Agent::retire_step(pid_t process, std::optional<int> signal) {
  if (!signal) return;
  ::kill(-process, *signal);
  // A stopped process acts on no signal but KILL and CONT.
  if (*signal != SIGKILL && *signal != SIGSTOP) ::kill(-process, SIGCONT);
}

void Agent::tick_retiring(std::chrono::steady_clock::time_point now) {
  for (const auto& [pid, worker] : workers_)
    if (const auto found = retiring_.find(worker.rank); found != retiring_.end())
      retire_step(pid, found->second.tick(now));
}

}  // namespace hvdrun
