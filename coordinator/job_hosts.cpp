// Hosts that are lost: they end the job, or come back to one that goes on.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "coordinator/job.h"

namespace hvdrun {

void Job::agent_lost(std::uint32_t host, const std::string& why, TimePoint now) {
  if (state_ == JobState::ended) return;
  // One that was not ready yet; before it has connected, what ends is of an earlier opening.
  if (hosts_.is_lost(host) && hosts_.opening(host) > 0 && hosts_.is_connected(host)) reopen(host);
  if (!hosts_.lose(host)) return;
  store_.forget_host(host);
  JobEnded verdict;
  verdict.cause = EndCause::host_lost;
  verdict.exit_code = exit_code::kHost;
  verdict.host = host_name(host);
  verdict.text = why;
  if (goes_on()) return host_ended(host, verdict, now);
  fail(std::move(verdict), now);
  // Its guard ends them; nobody is left who could report it.
  for (const RankPlace& place : membership_.table().on_host(host)) {
    causes_.lost(place.rank);
    if (membership_.ranks()[place.rank].state != RankState::exited)
      set_state(place.rank, RankState::exited);
  }
  end_if_done(now);
}

// The ssh session of a host may end later than its agent, when the next opening is under way.
void Job::on_host_failed(const HostFailed& message, TimePoint now) {
  const std::uint32_t host = message.host_index;
  if (message.opening != hosts_.opening(host)) return;
  if (message.opening > 0 && hosts_.is_lost(host)) return reopen(host);
  agent_lost(host, message.text, now);
}

void Job::host_ended(std::uint32_t host, const JobEnded& verdict, TimePoint now) {
  const std::string why = "host " + verdict.host + " is lost (" + verdict.text + ")";
  std::vector<std::uint32_t> slots;
  for (const RankPlace& place : membership_.table().on_host(host)) {
    if (elastic_->state_of(place.rank) == SlotState::done) continue;
    slots.push_back(place.rank);
    causes_.lost(place.rank);
    if (membership_.ranks()[place.rank].state != RankState::exited)
      set_state(place.rank, RankState::exited);
    init_.left(place.rank, now);
  }
  if (slots.empty()) return;  // nobody needs it any more
  if (!first_loss_ && std::any_of(slots.begin(), slots.end(),
                                  [this](std::uint32_t slot) { return was_member(slot); }))
    first_loss_ = verdict;
  const bool elsewhere = host < spec_.elsewhere.size() && spec_.elsewhere[host];
  elastic_->host_lost(slots, why, elsewhere, now);
  for (const std::uint32_t slot : slots) tell_members_lost(slot, why, now);
  carry_out(now);
  end_if_done(now);
  reopen(host);
}

// A host that nobody waits for is left alone, whatever is told of it.
void Job::reopen(std::uint32_t host) {
  if (!goes_on() || elastic_->is_over()) return;
  const auto slots = membership_.table().on_host(host);
  if (std::none_of(slots.begin(), slots.end(), [this](const RankPlace& slot) {
        return elastic_->state_of(slot.rank) == SlotState::away;
      }))
    return;
  hosts_.reopen(host);
  given_up_agents_.push_back(host);
  to_driver(ReopenHost{host, hosts_.opening(host)});
}

void Job::host_returned(std::uint32_t host, TimePoint now) {
  send_launches(LaunchOf::returned_host, host);
  to_driver(Log{LogLevel::warn, "host " + host_name(host) + " is back"});
  std::vector<std::uint32_t> slots;
  for (const RankPlace& place : membership_.table().on_host(host)) slots.push_back(place.rank);
  elastic_->host_back(slots, now);
  carry_out(now);
}

}  // namespace hvdrun
