// Ranks that are lost while the job goes on: what is told of them, and the epochs that follow.
#include <string>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/process/signal_words.h"
#include "coordinator/job.h"

namespace hvdrun {
namespace {

bool ended_well(const RankExited& end) { return end.kind == ExitKind::exited && end.value == 0; }

// Behind "rank 3".
std::string words_of(const RankExited& end, const std::string& trouble) {
  std::string words;
  switch (end.kind) {
    case ExitKind::signaled:
      words = "was killed by " + signal_text(end.value);
      break;
    case ExitKind::exited:
      words = "exited with code " + std::to_string(end.value);
      if (end.value == 0) words += " without hvd::shutdown()";
      break;
    case ExitKind::not_started:
      words = "could not start: " + end.detail;
      break;
    case ExitKind::lost:
      words = "was lost";
      break;
  }
  if (end.out_of_memory) words += " (out of memory)";
  if (!trouble.empty()) words += " (" + trouble + ")";
  return words;
}

}  // namespace

Errc Job::on_elastic_entered(std::uint32_t host, const Frame& frame, TimePoint now) {
  ElasticEntered message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.slot) ||
      message.layout.size() > limits::kMaxStateLayout)
    return Errc::malformed;
  if (!elastic_) return Errc::ok;
  const bool could_not = !goes_on();
  elastic_->entered(message.slot, message.layout);
  if (could_not && goes_on()) {
    list_hosts(now);
    leave_hosts(now);
  }
  return Errc::ok;
}

Errc Job::on_at_door(std::uint32_t host, const Frame& frame, TimePoint now) {
  AtDoor message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.slot) ||
      message.layout.size() > limits::kMaxStateLayout)
    return Errc::malformed;
  if (!elastic_) return Errc::unexpected_message;
  // A member's, before its agent had heard of this epoch: it has been let in since.
  if (frame.epoch != membership_.epoch() && elastic_->state_of(message.slot) == SlotState::member)
    return Errc::ok;
  elastic_->at_door(message.slot, message.waits, now, message.layout);
  carry_out(now);
  return Errc::ok;
}

// In other jobs, and before all ranks go on, the end of the process is waited for: it has the
// cause.
Errc Job::on_slot_dying(std::uint32_t host, const Frame& frame, TimePoint now) {
  SlotDying message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.slot))
    return Errc::malformed;
  if (!elastic_) return Errc::unexpected_message;
  if (!goes_on() || elastic_->state_of(message.slot) != SlotState::member) return Errc::ok;
  if (message.dumps_core)
    to_driver(Log{LogLevel::warn,
                  "rank " +
                      std::to_string(membership_.rank_of(message.slot).value_or(message.slot)) +
                      " is dumping core; the others go on without it"});
  elastic_->dying(message.slot, now);
  tell_members_lost(message.slot, "its process has died", now);
  carry_out(now);
  return Errc::ok;
}

void Job::slot_ended(const RankExited& end, TimePoint now) {
  horovod_ended(end.rank);
  if (elastic_->state_of(end.rank) == SlotState::ending) {
    // It was asked to; how it did tells nothing of the job.
    causes_.restarted(end.rank);
    elastic_->lost(end.rank, "", now);
    carry_out(now);
    return end_if_done(now);
  }
  // Horovod has no goodbye.
  if (ended_well(end) && elastic_->follows_horovod()) elastic_->leaves(end.rank, now);
  if (ended_well(end) && elastic_->state_of(end.rank) == SlotState::leaving) {
    elastic_->done(end.rank, now);
  } else {
    if (!first_loss_ && was_member(end.rank)) first_loss_ = causes_.blame(end.rank, membership_);
    const std::string words = words_of(end, causes_.trouble_of(end.rank));
    elastic_->lost(end.rank, words, now);
    tell_members_lost(end.rank, words, now);
  }
  carry_out(now);
  end_if_done(now);
}

// A dead rank's end may come when the others have met without it.
bool Job::was_member(std::uint32_t slot) const {
  return membership_.rank_of(slot).has_value() || elastic_->state_of(slot) == SlotState::dying;
}

void Job::tell_members_lost(std::uint32_t slot, const std::string& reason, TimePoint now) {
  if (!membership_.rank_of(slot)) return;
  tell_peers_lost(slot, reason);
  if (const auto failed = init_.break_off(slot, now)) to_agents(*failed);
}

void Job::begin_epoch(Assignment dealt, TimePoint now) {
  membership_.assign(std::move(dealt));
  init_.begin_epoch(membership_.size(), membership_.order(), now);
  store_ = Store();
  stall_inspector_ = StallInspector(spec_.stall_warning, spec_.stall_shutdown);
  survey_.drop();  // an agent may answer it in this epoch
  causes_.begin_epoch(membership_.order());
  given_up_.clear();
  const Assignment& ranks = membership_.dealt();
  if (elastic_->follows_horovod()) {
    notice_waits_ = false;
    horovod_epoch_ = {horovod_members_.places(ranks), horovod_members_.ranks_by_name(ranks)};
    horovod_members_.begin_epoch(ranks);
    horovod_watch_.update({}, {}, now);
  }
  std::vector<BeginEpoch> messages(hosts_.size());
  EpochBegun all;
  for (std::uint32_t rank = 0; rank < ranks.slots.size(); ++rank) {
    const EpochMember member{ranks.slots[rank], ranks.places[rank]};
    messages[member.place.host].here.push_back(member);
    all.members.push_back(member);
  }
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    if (!hosts_.hears(host)) continue;
    if (spec_.max_np > 0) messages[host].host_address = hosts_.address(host);
    to_agent(host, messages[host]);
  }
  to_driver(all);
}

void Job::end_slot(std::uint32_t slot) {
  const std::uint32_t host = membership_.ranks()[slot].place.host;
  if (hosts_.hears(host)) to_agent(host, EndSlot{slot, true, {}});
}

void Job::retire_slot(std::uint32_t slot) {
  const std::uint32_t host = membership_.ranks()[slot].place.host;
  if (hosts_.hears(host)) to_agent(host, EndSlot{slot, false, spec_.ladder});
}

void Job::carry_out(TimePoint now) {
  using What = ElasticJob::Decision::What;
  SlotsAdded added;
  for (ElasticJob::Decision& decision : elastic_->take_decisions()) {
    if (state_ != JobState::running) return;
    if (decision.what != What::add_slot && !added.slots.empty())
      to_driver(std::exchange(added, {}));
    switch (decision.what) {
      case What::start_slot:
        membership_.restart(decision.slot);
        causes_.restarted(decision.slot);
        deadline_ = now + spec_.start_timeout;
        to_agent(
            membership_.ranks()[decision.slot].place.host,
            StartSlot{membership_.ranks()[decision.slot].place, elastic_->start_of(decision.slot),
                      promise_to(decision.slot, decision.promised.get())});
        break;
      case What::add_slot:
        membership_.add_slot(decision.host);
        causes_.add_rank();
        horovod_members_.add_slot(host_name(decision.host));
        added.slots.push_back(membership_.ranks()[decision.slot].place);
        break;
      case What::open_hosts:
        open_and_dismiss();
        break;
      case What::end_slot:
        end_slot(decision.slot);
        break;
      case What::retire_slot:
        retire_slot(decision.slot);
        break;
      case What::begin_epoch:
        begin_epoch(std::move(decision.dealt), now);
        break;
      case What::ask_meeting:
        if (elastic_->follows_horovod())
          send_notice();
        else
          to_agents(MeetingWanted{});
        break;
      case What::say:
        to_driver(Log{LogLevel::warn, decision.text});
        break;
      case What::too_few:
      case What::too_many: {
        const bool few = decision.what == What::too_few;
        JobEnded verdict;
        verdict.cause = few ? EndCause::too_few_ranks : EndCause::too_many_resets;
        verdict.exit_code = few ? exit_code::kTooFewRanks : exit_code::kTooManyResets;
        verdict.text = std::move(decision.text);
        fail(std::move(verdict), now);
        break;
      }
      case What::all_lost:
        fail(first_loss_ ? std::move(*first_loss_) : causes_.blame(decision.slot, membership_),
             now);
        break;
      case What::finished: {
        JobEnded verdict;
        verdict.cause = EndCause::success;
        fail(std::move(verdict), now);
        break;
      }
    }
  }
}

}  // namespace hvdrun
