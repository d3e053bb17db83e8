#include "coordinator/job.h"

#include <algorithm>
#include <cerrno>
#include <signal.h>
#include <utility>

#include "common/exit_code.h"
#include "common/limits.h"

namespace hvdrun {
namespace {

// How long after the grace the ranks of a host may stay unaccounted for.
constexpr std::chrono::milliseconds kEndingSlack{5'000};

}  // namespace

std::uint32_t exit_code_of(ExitKind kind, std::uint32_t value) {
  switch (kind) {
    case ExitKind::exited:
      return value;
    case ExitKind::signaled:
      return exit_code::kSignalBase + value;
    case ExitKind::not_started:
      return value == ENOENT ? exit_code::kNotFound : exit_code::kNotExecutable;
  }
  return exit_code::kInternal;
}

Job::Job(JobSpec spec, TimePoint now)
    : spec_(std::move(spec)),
      membership_(spec_.hosts),
      hosts_(spec_.hosts.size()),
      deadline_(now + spec_.start_timeout) {
  membership_.assign(spec_.np);
  fence_ = Fence(membership_.size());
  for (const std::uint32_t host : membership_.hosts_used()) hosts_[host].needed = true;
}

bool Job::expects_agent(std::uint32_t host) const {
  return host < hosts_.size() && hosts_[host].needed && !hosts_[host].connected;
}

Errc Job::agent_frame(std::uint32_t host, const Frame& frame, TimePoint now) {
  if (frame.type == MessageType::agent_ready) return on_agent_ready(host, frame);
  if (frame.type == MessageType::heartbeat) return Errc::ok;
  if (frame.type == MessageType::log) {
    Log message;
    if (decode(frame.payload, message)) return Errc::malformed;
    to_driver(message);
    return Errc::ok;
  }
  if (!hosts_[host].ready) return Errc::unexpected_message;
  if (frame.epoch != membership_.epoch()) return Errc::wrong_epoch;
  switch (frame.type) {
    case MessageType::rank_started:
      return on_rank_started(host, frame);
    case MessageType::rank_exited:
      return on_rank_exited(host, frame, now);
    case MessageType::ranks_joined:
      return on_ranks_joined(host, frame);
    case MessageType::rank_left:
      return on_rank_left(host, frame);
    case MessageType::fence_enter:
      return on_fence_enter(host, frame);
    case MessageType::store_put:
      return on_store_put(host, frame);
    case MessageType::store_get:
      return on_store_get(host, frame, now);
    default:
      return Errc::unexpected_message;
  }
}

Errc Job::on_agent_ready(std::uint32_t host, const Frame& frame) {
  AgentReady message;
  if (decode(frame.payload, message)) return Errc::malformed;
  if (hosts_[host].ready) return Errc::unexpected_message;
  hosts_[host].ready = true;
  hosts_[host].info = message;
  if (state_ == JobState::ending || state_ == JobState::ended) {
    to_agent(host, EndJob{});
    return Errc::ok;
  }
  const auto& used = membership_.hosts_used();
  if (std::all_of(used.begin(), used.end(), [this](auto h) { return hosts_[h].ready; })) launch();
  return Errc::ok;
}

void Job::launch() {
  state_ = JobState::running;
  launched_ = true;
  const auto& used = membership_.hosts_used();
  // One machine: rank 0 is reached over loopback. Else by the name that the user gave its host.
  const std::string master_addr = used.size() == 1 ? "127.0.0.1" : host_name(used.front());
  std::vector<Launch> launches(used.size());
  std::uint32_t node = 0;
  for (const RankRecord& record : membership_.ranks()) {
    if (used[node] != record.place.host) ++node;
    launches[node].slots.push_back({record.place.rank, record.place.local_rank,
                                    record.place.cross_rank, record.place.cross_size});
  }
  for (node = 0; node < used.size(); ++node) {
    Launch& message = launches[node];
    message.size = membership_.size();
    message.host_count = static_cast<std::uint32_t>(used.size());
    message.node_rank = node;
    message.argv = spec_.argv;
    message.env = spec_.env;
    message.cwd = spec_.cwd;
    message.master_addr = master_addr;
    message.master_port = hosts_[used.front()].info.master_port;
    to_agent(used[node], message);
  }
  send_progress();
}

Errc Job::on_rank_started(std::uint32_t host, const Frame& frame) {
  RankStarted message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  membership_.set_pid(message.rank, message.pid);
  membership_.set_state(message.rank, RankState::started);
  if (membership_.started() == membership_.size()) send_progress();
  return Errc::ok;
}

Errc Job::on_rank_exited(std::uint32_t host, const Frame& frame, TimePoint now) {
  RankExited message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  if (membership_.ranks()[message.rank].state == RankState::exited) return Errc::malformed;
  membership_.set_state(message.rank, RankState::exited);
  const bool success = message.kind == ExitKind::exited && message.value == 0;
  if (!success && !message.after_kill && state_ == JobState::running) {
    JobEnded verdict;
    verdict.cause = EndCause::rank_failed;
    verdict.exit_code = exit_code_of(message.kind, message.value);
    verdict.rank = message.rank;
    verdict.pid = message.pid;
    verdict.kind = message.kind;
    verdict.value = message.value;
    verdict.host = host_name(host);
    verdict.text = message.detail;
    fail(std::move(verdict), now, SIGTERM);
  }
  fail_fence_if_hopeless();
  end_if_done();
  return Errc::ok;
}

Errc Job::on_ranks_joined(std::uint32_t host, const Frame& frame) {
  RanksJoined message;
  if (decode(frame.payload, message)) return Errc::malformed;
  for (const std::uint32_t rank : message.ranks) {
    if (!membership_.owns(host, rank)) return Errc::malformed;
    membership_.set_state(rank, RankState::joined);
  }
  if (membership_.joined() == membership_.size()) send_progress();
  return Errc::ok;
}

Errc Job::on_rank_left(std::uint32_t host, const Frame& frame) {
  RankLeft message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  membership_.set_state(message.rank, RankState::left);
  fence_.withdraw(message.rank);
  // Clean leaves stay on their host: told to everybody they would cost ranks x hosts messages.
  if (!message.clean && state_ == JobState::running)
    tell_peers_lost(message.rank, "its process is gone");
  return Errc::ok;
}

void Job::tell_peers_lost(std::uint32_t rank, const std::string& reason) {
  const std::uint32_t own_host = membership_.ranks()[rank].place.host;
  for (std::uint32_t host = 0; host < hosts_.size(); ++host)
    if (host != own_host && hosts_[host].ready && !hosts_[host].lost)
      to_agent(host, PeerLost{rank, false, reason});
}

Errc Job::on_fence_enter(std::uint32_t host, const Frame& frame) {
  FenceEnter message;
  if (decode(frame.payload, message)) return Errc::malformed;
  for (const std::uint32_t rank : message.ranks)
    if (!membership_.owns(host, rank)) return Errc::malformed;
  Errc fault = Errc::ok;
  const auto release = fence_.enter(message, fault);
  if (fault != Errc::ok) return fault;
  if (release) {
    to_agents(*release);
  } else {
    fail_fence_if_hopeless();
  }
  return Errc::ok;
}

void Job::fail_fence_if_hopeless() {
  if (fence_.count() == 0 || state_ == JobState::ended) return;
  const auto& ranks = membership_.ranks();
  const auto gone = std::find_if(ranks.begin(), ranks.end(), [this](const RankRecord& record) {
    return record.state == RankState::exited && !fence_.is_inside(record.place.rank);
  });
  if (gone == ranks.end()) return;
  to_agents(FenceFailed{fence_.number(), "rank " + std::to_string(gone->place.rank) +
                                             " ended before it called hvd::init()"});
  fence_.withdraw_all();
}

Errc Job::on_store_put(std::uint32_t host, const Frame& frame) {
  StorePut message;
  if (decode(frame.payload, message)) return Errc::malformed;
  std::vector<Store::Answer> answers;
  const Errc code = store_.put(message.key, std::move(message.value), answers);
  to_agent(host, StoreAck{message.request, code});
  send_answers(answers);
  return Errc::ok;
}

Errc Job::on_store_get(std::uint32_t host, const Frame& frame, TimePoint now) {
  StoreGet message;
  if (decode(frame.payload, message)) return Errc::malformed;
  std::vector<Store::Answer> answers;
  store_.get(message.key, {host, message.request}, now,
             std::chrono::milliseconds(message.timeout_ms), answers);
  send_answers(answers);
  return Errc::ok;
}

void Job::send_answers(const std::vector<Store::Answer>& answers) {
  for (const Store::Answer& answer : answers)
    to_agent(answer.waiter.host, StoreValue{answer.waiter.request, answer.code, answer.value});
}

void Job::send_progress() {
  JobProgress message;
  message.size = membership_.size();
  message.hosts_ready = static_cast<std::uint32_t>(
      std::count_if(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.ready; }));
  message.started = membership_.started();
  message.joined = membership_.joined();
  to_driver(message);
}

void Job::agent_lost(std::uint32_t host, const std::string& why, TimePoint now) {
  if (hosts_[host].lost || state_ == JobState::ended) return;
  hosts_[host].lost = true;
  store_.forget_host(host);
  JobEnded verdict;
  verdict.cause = EndCause::host_lost;
  verdict.exit_code = exit_code::kHost;
  verdict.host = host_name(host);
  verdict.text = why;
  fail(std::move(verdict), now, SIGTERM);
  // Its guard ends them; nobody is left who could report it.
  for (const std::uint32_t rank : membership_.ranks_of(host))
    membership_.set_state(rank, RankState::exited);
  end_if_done();
}

Errc Job::driver_frame(const Frame& frame, TimePoint now) {
  switch (frame.type) {
    case MessageType::heartbeat:
      return Errc::ok;
    case MessageType::abort_job: {
      AbortJob message;
      if (decode(frame.payload, message)) return Errc::malformed;
      JobEnded verdict;
      verdict.cause = EndCause::aborted;
      verdict.exit_code = exit_code::kSignalBase + message.signal;
      verdict.value = message.signal;
      fail(std::move(verdict), now, SIGTERM);
      end_if_done();
      return Errc::ok;
    }
    case MessageType::host_failed: {
      HostFailed message;
      if (decode(frame.payload, message) || message.host_index >= hosts_.size())
        return Errc::malformed;
      agent_lost(message.host_index, message.text, now);
      return Errc::ok;
    }
    default:
      return Errc::unexpected_message;
  }
}

void Job::driver_lost(TimePoint now) {
  JobEnded verdict;
  verdict.cause = EndCause::aborted;
  verdict.exit_code = exit_code::kSignalBase + SIGHUP;
  verdict.value = SIGHUP;
  fail(std::move(verdict), now, SIGTERM);
  end_if_done();
}

void Job::fail(JobEnded verdict, TimePoint now, std::uint32_t signal) {
  if (state_ == JobState::ending || state_ == JobState::ended) return;
  if (launched_) verdict.others_ended = membership_.size() - membership_.exited();
  verdict_ = std::move(verdict);
  state_ = JobState::ending;
  deadline_ = now + spec_.grace + kEndingSlack;
  if (launched_) to_agents(KillRanks{signal, static_cast<std::uint32_t>(spec_.grace.count())});
}

void Job::end_if_done() {
  if (state_ == JobState::waiting || state_ == JobState::ended) return;
  if (launched_ && membership_.exited() < membership_.size()) return;
  if (state_ == JobState::running) verdict_.cause = EndCause::success;
  state_ = JobState::ended;
  to_driver(verdict_);
  to_agents(EndJob{});
}

std::optional<TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> next = store_.next_deadline();
  if (state_ == JobState::waiting || state_ == JobState::ending)
    next = next ? std::min(*next, deadline_) : deadline_;
  return next;
}

void Job::tick(TimePoint now) {
  std::vector<Store::Answer> answers;
  store_.expire(now, answers);
  send_answers(answers);
  if (now < deadline_) return;
  if (state_ == JobState::waiting) {
    JobEnded verdict;
    verdict.cause = EndCause::start_timeout;
    verdict.exit_code = exit_code::kHost;
    for (const std::uint32_t host : membership_.hosts_used()) {
      if (hosts_[host].ready) continue;
      if (!verdict.text.empty()) verdict.text += ", ";
      verdict.text += host_name(host);
    }
    fail(std::move(verdict), now, SIGTERM);
  }
  if (state_ == JobState::ending && now >= deadline_) {
    for (const RankRecord& record : membership_.ranks())
      membership_.set_state(record.place.rank, RankState::exited);
  }
  end_if_done();
}

}  // namespace hvdrun
