#include "coordinator/job.h"

#include <algorithm>
#include <cerrno>
#include <signal.h>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/base/rank_ranges.h"

namespace hvdrun {
namespace {

// The time after the grace for which the ranks of a host may stay unaccounted for.
constexpr std::chrono::milliseconds kEndingSlack{5'000};

// Its ranks or requests are those of the epoch that its frame names.
bool is_of_an_epoch(MessageType type) {
  switch (type) {
    case MessageType::fence_enter:
    case MessageType::store_put:
    case MessageType::store_get:
    case MessageType::rank_stalled:
    case MessageType::rank_pictures:
    case MessageType::ranks_joined:
      return true;
    default:
      return false;
  }
}

// 0 is none.
std::chrono::milliseconds earlier_limit(std::chrono::milliseconds a, std::chrono::milliseconds b) {
  return a.count() == 0 || b.count() == 0 ? std::max(a, b) : std::min(a, b);
}

std::vector<std::string> hosts_by_rank(const RankTable& ranks) {
  std::vector<std::string> hosts;
  hosts.reserve(ranks.size());
  for (const RankPlace& place : ranks.places()) hosts.push_back(ranks.host_name(place.rank));
  return hosts;
}

}  // namespace

Job::Job(JobSpec spec, TimePoint now)
    : spec_(std::move(spec)),
      hosts_(spec_.hosts().size()),
      checks_(spec_.elsewhere),
      init_(spec_.np(),
            {"hvd::init", earlier_limit(spec_.init_timeout, spec_.stall_shutdown),
             spec_.stall_warning, std::max(spec_.init_timeout - JobSpec::kAfterInitTimeout, {})}),
      // Horovod's members have a time-out of their own, which the user sets.
      horovod_watch_("hvd.init", spec_.stall_shutdown, spec_.stall_warning),
      stall_inspector_(spec_.stall_warning, spec_.stall_shutdown),
      causes_(spec_.np()),
      horovod_members_(hosts_by_rank(spec_.seen_by_horovod())),
      started_(now),
      deadline_(now + spec_.start_timeout) {
  membership_.assign(spec_.ranks);
  if (spec_.min_np > 0) {
    elastic_.emplace(spec_.ranks, spec_.min_np, spec_.elastic_timeout, spec_.stall_shutdown);
    if (spec_.max_np > 0) elastic_->hosts_change(spec_.max_np);
    if (spec_.reset_limit) elastic_->limit_resets(*spec_.reset_limit);
    if (spec_.cooldown) elastic_->cool_down(spec_.cooldown->first, spec_.cooldown->second);
  }
  for (const std::uint32_t host : membership_.hosts_used()) hosts_.need(host);
  for (std::uint32_t host = 0; host < hosts_.size() && spec_.max_np > 0; ++host)
    if (hosts_.is_unneeded(host)) hosts_.dismiss(host);
}

Errc Job::agent_frame(std::uint32_t host, const Frame& frame, TimePoint now) {
  if (frame.type == MessageType::agent_ready) return on_agent_ready(host, frame, now);
  if (frame.type == MessageType::heartbeat) return Errc::ok;
  if (frame.type == MessageType::log) {
    Log message;
    if (decode(frame.payload, message)) return Errc::malformed;
    to_driver(message);
    return Errc::ok;
  }
  if (!hosts_.is_ready(host)) return Errc::unexpected_message;
  if (frame.epoch != membership_.epoch()) {
    if (!elastic_ || frame.epoch > membership_.epoch()) return Errc::wrong_epoch;
    // It was on its way when the epoch began. Processes are the same, all else is over.
    if (is_of_an_epoch(frame.type)) return Errc::ok;
  }
  switch (frame.type) {
    case MessageType::launch_checked:
      return on_launch_checked(host, frame, now);
    case MessageType::rank_started:
      return on_rank_started(host, frame);
    case MessageType::rank_exited:
      return on_rank_exited(host, frame, now);
    case MessageType::ranks_joined:
      return on_ranks_joined(host, frame, now);
    case MessageType::rank_left:
      return on_rank_left(host, frame, now);
    case MessageType::rank_trouble:
      return on_rank_trouble(host, frame, now);
    case MessageType::rank_stalled:
      return on_rank_stalled(host, frame, now);
    case MessageType::rank_pictures:
      return on_rank_pictures(host, frame, now);
    case MessageType::fence_enter:
      return on_fence_enter(host, frame, now);
    case MessageType::elastic_entered:
      return on_elastic_entered(host, frame, now);
    case MessageType::at_door:
      return on_at_door(host, frame, now);
    case MessageType::slot_dying:
      return on_slot_dying(host, frame, now);
    case MessageType::host_leaving:
      return on_host_leaving(host, now);
    case MessageType::store_put:
      return on_store_put(host, frame);
    case MessageType::store_get:
      return on_store_get(host, frame, now);
    default:
      return Errc::unexpected_message;
  }
}

Errc Job::on_rank_started(std::uint32_t host, const Frame& frame) {
  RankStarted message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  membership_.set_pid(message.rank, message.pid);
  set_state(message.rank, RankState::started);
  if (membership_.started() == membership_.size()) send_progress();
  return Errc::ok;
}

Errc Job::on_rank_exited(std::uint32_t host, const Frame& frame, TimePoint now) {
  RankExited message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  if (membership_.ranks()[message.rank].state == RankState::exited) return Errc::malformed;
  causes_.ended(message);
  set_state(message.rank, RankState::exited);
  init_.left(message.rank, now);
  if (goes_on()) {
    slot_ended(message, now);
    return Errc::ok;
  }
  if (state_ == JobState::running && !message.after_kill)
    if (auto verdict = causes_.judge(message.rank, membership_, now)) {
      if (elastic_)
        to_driver(Log{LogLevel::warn,
                      "the others could have gone on if all ranks had been in hvd::elastic::run"});
      fail(std::move(*verdict), now);
    }
  fail_init_if_hopeless(now);
  fail_gathering_if_hopeless(now);
  if (elastic_ && state_ == JobState::running && causes_.ended_well(message.rank)) {
    elastic_->done(message.rank, now);
    carry_out(now);
  }
  end_if_done(now);
  return Errc::ok;
}

void Job::set_state(std::uint32_t rank, RankState state) {
  membership_.set_state(rank, state);
  if (!spec_.events) return;
  const RankRecord& record = membership_.ranks()[rank];
  RankEvent event;
  event.slot = rank;
  event.rank = membership_.rank_of(rank).value_or(rank);
  event.host = record.place.host;
  event.state = name_of(state);
  event.pid = record.pid;
  if (state == RankState::exited) {
    const Victims end = causes_.end_of(rank);
    event.kind = end.kind;
    event.value = end.value;
    event.ended_by_us = state_ == JobState::ending;
  }
  to_driver(event);
}

Errc Job::on_rank_trouble(std::uint32_t host, const Frame& frame, TimePoint now) {
  RankTrouble message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  if (message.text.size() > limits::kMaxTrouble) message.text.resize(limits::kMaxTrouble);
  if (message.gives_up) tell_peers_given_up(message);
  // A survivor's loss may have a cause of its own.
  if (goes_on() && message.code != Errc::peer_lost) causes_.own_trouble_follows(message.rank);
  causes_.trouble(message.rank, message.code, std::move(message.text), init_of(message.rank, now));
  if (causes_.wants_explanation()) {
    init_.doubt().cause = true;
    look_into_stalls(now);
  }
  return Errc::ok;
}

Errc Job::on_ranks_joined(std::uint32_t host, const Frame& frame, TimePoint now) {
  RanksJoined message;
  if (decode(frame.payload, message)) return Errc::malformed;
  for (const std::uint32_t rank : message.ranks) {
    if (!membership_.owns(host, rank)) return Errc::malformed;
    given_up_.clear();  // of a job within the job, which has ended
    set_state(rank, RankState::joined);
  }
  init_.came(message.ranks, now);
  if (state_ == JobState::running) fail_init_if_hopeless(now);
  if (membership_.joined() == membership_.size()) send_progress();
  return Errc::ok;
}

Errc Job::on_rank_left(std::uint32_t host, const Frame& frame, TimePoint now) {
  RankLeft message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  // The slot's next process may have been started before the word on the last one's line comes.
  if (membership_.ranks()[message.rank].state == RankState::joined)
    set_state(message.rank, RankState::left);
  init_.left(message.rank, now);
  if (elastic_ && state_ == JobState::running && message.clean && !message.returns) {
    elastic_->leaves(message.rank, now);
    carry_out(now);
  }
  // Clean leaves stay on their host: told to everybody they would cost ranks x hosts messages.
  if (!message.clean && state_ == JobState::running)
    tell_peers_lost(message.rank, "its process is gone");
  return Errc::ok;
}

void Job::tell_peers_lost(std::uint32_t slot, const std::string& reason) {
  const auto rank = membership_.rank_of(slot);
  if (!rank) return;
  const std::uint32_t own_host = membership_.ranks()[slot].place.host;
  for (std::uint32_t host = 0; host < hosts_.size(); ++host)
    if (host != own_host && hosts_.hears(host)) to_agent(host, PeerLost{*rank, false, reason});
}

// Ranks of its own host see it in their shared memory. The first rank's reason is enough: told of
// each, a failure that all ranks meet would cost ranks x hosts messages.
void Job::tell_peers_given_up(const RankTrouble& trouble) {
  constexpr std::size_t kMostSets = 1024;
  const auto rank = membership_.rank_of(trouble.rank);
  if (!rank || given_up_.size() == kMostSets || !given_up_.insert(trouble.process_set).second)
    return;
  const PeerGaveUp message{*rank, trouble.process_set, trouble.code, trouble.text};
  const std::uint32_t own_host = membership_.ranks()[trouble.rank].place.host;
  for (std::uint32_t host = 0; host < hosts_.size(); ++host)
    if (host != own_host && hosts_.hears(host)) to_agent(host, message);
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
  message.hosts_ready = hosts_.ready_count();
  message.started = membership_.started();
  message.joined = membership_.joined();
  to_driver(message);
}

Errc Job::driver_frame(const Frame& frame, TimePoint now) {
  switch (frame.type) {
    case MessageType::heartbeat:
      return Errc::ok;
    case MessageType::abort_job: {
      AbortJob message;
      if (decode(frame.payload, message)) return Errc::malformed;
      abort(message.signal, now);
      return Errc::ok;
    }
    case MessageType::signal_ranks: {
      SignalRanks message;
      if (decode(frame.payload, message)) return Errc::malformed;
      if (was_launched() && state_ == JobState::running) to_agents(message);
      return Errc::ok;
    }
    case MessageType::hosts_listed:
      return on_hosts_listed(frame, now);
    case MessageType::host_failed: {
      HostFailed message;
      if (decode(frame.payload, message) || message.host_index >= hosts_.size())
        return Errc::malformed;
      on_host_failed(message, now);
      return Errc::ok;
    }
    default:
      return Errc::unexpected_message;
  }
}

void Job::driver_lost(TimePoint now) { abort(SIGHUP, now); }

void Job::abort(std::uint32_t signal, TimePoint now) {
  JobEnded verdict;
  verdict.cause = EndCause::aborted;
  verdict.exit_code = exit_code::kSignalBase + signal;
  verdict.value = signal;
  fail(std::move(verdict), now);
  end_if_done(now);
}

void Job::fail(JobEnded verdict, TimePoint now) {
  if (state_ == JobState::ending || state_ == JobState::ended) return;
  verdict_ = std::move(verdict);
  verdict_.after_ms = ms_since_launch(now);
  state_ = JobState::ending;
  deadline_ = now + std::chrono::milliseconds(total_wait_ms(spec_.ladder)) + kEndingSlack;
  if (was_launched()) to_agents(KillRanks{spec_.ladder});
}

void Job::end_if_done(TimePoint now) {
  if (state_ == JobState::waiting || state_ == JobState::ended) return;
  if (was_launched() && membership_.exited() < membership_.size()) return;
  if (goes_on() && !elastic_->is_over()) return;  // the next process has not been started yet
  if (state_ == JobState::running) {
    // With nobody left to wait for, a suspicion is a verdict.
    std::optional<JobEnded> verdict;
    if (!init_.known_links().empty()) verdict = causes_.init_explained(init_.known_links());
    if (!verdict) verdict = causes_.tick(TimePoint::max());
    if (verdict) {
      verdict_ = std::move(*verdict);
      verdict_.after_ms = ms_since_launch(now);
    } else {
      verdict_.cause = EndCause::success;
    }
  }
  if (verdict_.cause != EndCause::success) {
    const bool names_rank =
        verdict_.cause == EndCause::rank_failed || verdict_.cause == EndCause::early_exit;
    verdict_.victims = causes_.victims(names_rank ? std::optional(verdict_.rank) : std::nullopt);
  }
  state_ = JobState::ended;
  verdict_.by_slot = membership_.epoch() > 1;
  to_driver(verdict_);
  to_agents(EndJob{});
}

std::optional<TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> next = store_.next_deadline();
  const auto earlier = [&next](std::optional<TimePoint> other) {
    if (other && (!next || *other < *next)) next = other;
  };
  if (state_ == JobState::waiting || state_ == JobState::ending) earlier(deadline_);
  if (state_ == JobState::running) {
    if (starts_ranks()) earlier(deadline_);
    earlier(causes_.next_deadline());
    earlier(init_.next_deadline(membership_.exited() > 0));
    earlier(horovod_watch_.next_deadline());
    earlier(survey_.is_open() ? survey_.next_deadline() : stall_inspector_.next_deadline());
    if (spec_.timeout.count() > 0) earlier(*launched_at_ + spec_.timeout);
    if (elastic_) earlier(elastic_->next_deadline());
  }
  return next;
}

void Job::tick(TimePoint now) {
  std::vector<Store::Answer> answers;
  store_.expire(now, answers);
  send_answers(answers);
  if (state_ == JobState::running) {
    if (auto verdict = causes_.tick(now)) fail(std::move(*verdict), now);
    fail_init_if_hopeless(now);
    tick_init_watch(init_.watch(now), now);
    tick_init_watch(horovod_watch_, now);
    look_into_stalls(now);
    if (elastic_) {
      elastic_->tick(now);
      carry_out(now);
    }
    if (state_ == JobState::running && starts_ranks() && now >= deadline_) {
      if (goes_on())
        lose_slow_hosts(now);
      else
        fail_start(now);
    }
    if (state_ == JobState::running && spec_.timeout.count() > 0 &&
        now >= *launched_at_ + spec_.timeout) {
      JobEnded verdict;
      verdict.cause = EndCause::timeout;
      verdict.exit_code = exit_code::kTimeout;
      fail(std::move(verdict), now);
    }
    return end_if_done(now);
  }
  if (now < deadline_) return;
  if (state_ == JobState::waiting) {
    fail_start(now);
  }
  if (state_ == JobState::ending && now >= deadline_) {
    for (const RankRecord& record : membership_.ranks()) {
      if (record.state == RankState::exited) continue;
      causes_.lost(record.place.rank);
      membership_.set_state(record.place.rank, RankState::exited);
    }
  }
  end_if_done(now);
}

}  // namespace hvdrun
