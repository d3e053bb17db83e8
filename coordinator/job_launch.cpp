// A job's way from the first host that is ready to ranks that start, or do not in time.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/net/host_addresses.h"
#include "coordinator/job.h"
#include "coordinator/launch_messages.h"

namespace hvdrun {

Errc Job::on_agent_ready(std::uint32_t host, const Frame& frame, TimePoint now) {
  AgentReady message;
  if (decode(frame.payload, message)) return Errc::malformed;
  if (!message.address.empty() && !is_ip_address(message.address)) return Errc::malformed;
  if (!hosts_.ready(host, message)) return Errc::unexpected_message;
  if (state_ == JobState::ending || state_ == JobState::ended) {
    to_agent(host, EndJob{});
    return Errc::ok;
  }
  if (was_launched()) {
    host_returned(host, now);
    return Errc::ok;
  }
  // Only hosts that are needed get as far as here.
  if (hosts_.ready_count() == membership_.hosts_used().size()) check_or_launch(now);
  return Errc::ok;
}

void Job::check_or_launch(TimePoint now) {
  for (const std::uint32_t host : membership_.hosts_used())
    if (checks_.wants(host)) checks_.ask(host);
  if (checks_.all_answered()) return launch(now);
  send_launches(LaunchOf::hosts_that_check);
}

Errc Job::on_launch_checked(std::uint32_t host, const Frame& frame, TimePoint now) {
  LaunchChecked message;
  if (decode(frame.payload, message)) return Errc::malformed;
  if (const Errc fault = checks_.answer(host, message); fault != Errc::ok) return fault;
  if (state_ != JobState::waiting || !checks_.all_answered()) return Errc::ok;
  if (auto verdict = checks_.verdict(membership_.hosts())) {
    fail(std::move(*verdict), now);
    end_if_done(now);
  } else {
    launch(now);
  }
  return Errc::ok;
}

void Job::launch(TimePoint now) {
  state_ = JobState::running;
  launched_at_ = now;
  deadline_ = now + spec_.start_timeout;
  const auto& used = membership_.hosts_used();
  for (const std::uint32_t host : used)
    if (checks_.wants(host)) to_agent(host, StartRanks{});
  if (!std::all_of(used.begin(), used.end(), [this](auto host) { return checks_.wants(host); }))
    send_launches(LaunchOf::other_hosts);
  send_progress();
}

void Job::send_launches(LaunchOf what, std::uint32_t returned) {
  const auto& used = membership_.hosts_used();
  std::vector<std::string> addresses;
  addresses.reserve(used.size());
  for (const std::uint32_t host : used) addresses.push_back(hosts_.address(host));
  // A name in -H may be one that only ssh knows, so it is not the name that ranks are given.
  // One that comes back has another port.
  if (master_addr_.empty()) {
    master_addr_ = used.size() == 1 ? "127.0.0.1" : addresses.front();
    master_port_ = hosts_.master_port(used.front());
  }
  const auto body =
      std::make_shared<const std::string>(encode(launch_body(spec_, master_addr_, master_port_)));
  const std::vector<HorovodSlot> seen = horovod_slots(spec_);
  for_each_launch(
      membership_.table(), addresses, spec_.max_np > 0,
      [&](std::uint32_t host, LaunchHead message) {
        const bool returns = what == LaunchOf::returned_host;
        const bool check_first = what == LaunchOf::hosts_that_check;
        if (returns ? host != returned : checks_.wants(host) != check_first) return;
        if (!seen.empty())
          for (const RankPlace& slot : message.slots)
            message.horovod_slots.push_back(
                slot.rank < seen.size() ? seen[slot.rank] : HorovodSlot{host_name(host), slot});
        message.check_first = check_first;
        message.comes_back = returns;
        if (host < spec_.host_env.size()) message.host_env = spec_.host_env[host];
        const std::string head = encode(message);
        std::string frame;
        append_header(frame, Launch::kType, membership_.epoch(), head.size() + body->size());
        actions_.push_back({Action::Target::agent, host, frame + head, body});
      });
}

// Names the hosts that are not there, or once all are those that have not started all their ranks.
void Job::fail_start(TimePoint now) {
  JobEnded verdict;
  verdict.cause = EndCause::start_timeout;
  verdict.exit_code = exit_code::kHost;
  std::size_t late = 0;
  for (const std::uint32_t host : membership_.hosts_used()) {
    std::string name = host_name(host);
    if (was_launched()) {
      const auto ranks = membership_.table().on_host(host);
      const auto late_one = std::find_if(ranks.begin(), ranks.end(), [this](const RankPlace& one) {
        return membership_.ranks()[one.rank].state == RankState::assigned;
      });
      if (late_one == ranks.end()) continue;
      name += " (rank " + std::to_string(late_one->rank) + " has not started)";
    } else if (hosts_.is_ready(host) && !checks_.waits_for(host)) {
      continue;
    }
    if (++late > limits::kMaxNamedHosts) continue;
    if (!verdict.text.empty()) verdict.text += ", ";
    verdict.text += name;
  }
  if (late > limits::kMaxNamedHosts)
    verdict.text += " and " + std::to_string(late - limits::kMaxNamedHosts) + " more";
  fail(std::move(verdict), now);
}

// An agent that does not start its slots' next processes in time does nothing else, either.
void Job::lose_slow_hosts(TimePoint now) {
  for (const std::uint32_t host : membership_.hosts_used()) {
    const auto slots = membership_.table().on_host(host);
    const auto late = std::find_if(slots.begin(), slots.end(), [this](const RankPlace& one) {
      return membership_.ranks()[one.rank].state == RankState::assigned;
    });
    if (late == slots.end() || state_ != JobState::running) continue;
    agent_lost(host,
               "its agent has not started slot " + std::to_string(late->rank) +
                   " again for the time that --start-timeout gives it",
               now);
  }
}

}  // namespace hvdrun
