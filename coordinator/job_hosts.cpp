// Hosts that are lost: they end the job, or come back to one that goes on. And such as come and go.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
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
    horovod_ended(place.rank);
    if (membership_.ranks()[place.rank].state != RankState::exited) {
      causes_.lost(place.rank);
      set_state(place.rank, RankState::exited);
    }
    init_.left(place.rank, now);
  }
  elastic_->host_gone(host);
  if (slots.empty()) return;  // nobody needs it any more
  if (!first_loss_ && std::any_of(slots.begin(), slots.end(),
                                  [this](std::uint32_t slot) { return was_member(slot); }))
    first_loss_ = verdict;
  elastic_->host_lost(slots, why, reopens(host), now);
  for (const std::uint32_t slot : slots) tell_members_lost(slot, why, now);
  carry_out(now);
  end_if_done(now);
  reopen(host);
}

// A host that nobody waits for is left alone, whatever is told of it.
void Job::reopen(std::uint32_t host) {
  if (!goes_on() || elastic_->is_over()) return;
  const auto slots = membership_.table().on_host(host);
  const bool away = std::any_of(slots.begin(), slots.end(), [this](const RankPlace& slot) {
    return elastic_->state_of(slot.rank) == SlotState::away;
  });
  if (away) return open(host, false);
  // It may be needed again.
  if (reopens(host)) hosts_.dismiss(host);
}

void Job::open(std::uint32_t host, bool at_once) {
  hosts_.reopen(host);
  given_up_agents_.push_back(host);
  to_driver(ReopenHost{host, hosts_.opening(host), at_once});
}

void Job::host_returned(std::uint32_t host, TimePoint now) {
  send_launches(LaunchOf::returned_host, host);
  const bool is_new = hosts_.opening(host) == 1 && membership_.table().count_on(host) > 0 &&
                      host >= spec_.hosts().size();
  to_driver(Log{LogLevel::warn, "host " + host_name(host) + (is_new ? " has come" : " is back")});
  elastic_->host_back(host, now);
  carry_out(now);
  open_and_dismiss();  // it may have come too late
}

// Before all ranks go on there is nobody who could be asked to meet; the list is kept until then.
Errc Job::on_hosts_listed(const Frame& frame, TimePoint now) {
  HostsListed message;
  if (decode(frame.payload, message)) return Errc::malformed;
  if (!elastic_ || spec_.max_np == 0) return Errc::unexpected_message;
  std::size_t known = hosts_.size();
  for (const ListedHost& host : message.hosts) {
    if (host.index > known || host.slots == 0 || host.slots > limits::kMaxRanks)
      return Errc::malformed;
    known = std::max<std::size_t>(known, host.index + 1);
  }
  for (const std::uint32_t host : message.ended)
    if (host >= known) return Errc::malformed;
  spec_.elsewhere.resize(known);
  for (const ListedHost& host : message.hosts) {
    spec_.elsewhere[host.index] = host.reopens;
    if (host.index < hosts_.size()) continue;
    membership_.add_host({host.name, host.slots});
    elastic_->add_host({host.name, host.slots});
    hosts_.add();
  }
  listed_ = std::move(message.hosts);
  to_end_.insert(message.ended.begin(), message.ended.end());
  if (goes_on()) list_hosts(now);
  return Errc::ok;
}

void Job::list_hosts(TimePoint now) {
  if (listed_.empty()) return;
  std::vector<ElasticJob::Host> hosts;
  hosts.reserve(listed_.size());
  for (const ListedHost& host : listed_) hosts.push_back({host.index, host.slots});
  elastic_->list_hosts(std::move(hosts), now);
  for (const std::uint32_t host : std::exchange(to_end_, {})) elastic_->end_host(host);
  carry_out(now);
}

void Job::open_and_dismiss() {
  if (!goes_on() || elastic_->is_over()) return;
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    bool away = false;
    bool needed = false;
    for (const RankPlace& slot : membership_.table().on_host(host)) {
      const SlotState state = elastic_->state_of(slot.rank);
      away = away || state == SlotState::away;
      needed = needed || (state != SlotState::unwanted && state != SlotState::left_out);
    }
    if (away && hosts_.is_unneeded(host)) {
      open(host, true);
    } else if (spec_.max_np > 0 && !needed && reopens(host) && !hosts_.is_unneeded(host)) {
      dismiss(host);
    }
  }
}

void Job::leave_hosts(TimePoint now) {
  for (const std::uint32_t host : std::exchange(leaving_hosts_, {}))
    elastic_->host_leaves(host, now);
  carry_out(now);
}

Errc Job::on_host_leaving(std::uint32_t host, TimePoint now) {
  if (!elastic_) return Errc::unexpected_message;
  to_driver(Log{LogLevel::warn, "host " + host_name(host) + " is told to go (SIGTERM)" +
                                    (goes_on() ? "; its ranks leave at a commit, when the others "
                                                 "are enough without them"
                                               : "")});
  leaving_hosts_.insert(host);
  if (goes_on()) leave_hosts(now);
  return Errc::ok;
}

// A guard on this machine could not be made again, so such a host is kept (reopens()).
void Job::dismiss(std::uint32_t host) {
  if (hosts_.hears(host))
    to_agent(host, EndJob{});
  else
    to_driver(LeaveHost{host});
  hosts_.dismiss(host);
  elastic_->host_gone(host);
}

}  // namespace hvdrun
