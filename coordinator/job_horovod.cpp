// Elastic programs of Horovod: what they say in its own protocol, in words of the job. A rank says
// that it goes on when it enters hvd.elastic.run (worker_addresses). It is at its door when it asks
// for its next place (rank_and_size), and a newcomer when it comes to its first meeting.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/job.h"

namespace hvdrun {

bool Job::waits_for_horovod_places() const { return goes_on() && elastic_->follows_horovod(); }

void Job::horovod_entered(std::uint32_t host, const std::string& member, std::string_view value,
                          TimePoint now) {
  if (!elastic_ || state_ != JobState::running) return;
  const auto slot = horovod_members_.member(member);
  if (!slot || !membership_.owns(host, *slot)) return;
  if (auto addresses = read_worker_addresses(value))
    horovod_members_.set_addresses(*slot, std::move(*addresses));
  else
    to_driver(Log{LogLevel::warn, "what " + member +
                                      " tells of itself as a Horovod program is not understood: it "
                                      "cannot be told of hosts that come or go"});
  if (!elastic_->follows_horovod()) elastic_->follow_horovod(horovod_members_.hosts());
  const bool could_not = !goes_on();
  elastic_->entered(*slot);
  if (could_not && goes_on()) {
    const auto& hosts = horovod_members_.hosts();
    if (std::all_of(hosts.begin(), hosts.end(),
                    [&hosts](const auto& name) { return name == hosts.front(); }))
      to_driver(
          Log{LogLevel::warn,
              "a Horovod program goes on without the whole host of a rank that is lost, as "
              "with horovodrun; all ranks are on one, so " +
                  std::string(spec_.max_np == 0 ? "the first loss ends this job"
                                                : "a loss ends this job until others have come")});
    list_hosts(now);
    leave_hosts(now);
  }
  if (notice_waits_) send_notice();
}

void Job::horovod_at_door(std::uint32_t host, const std::string& member, TimePoint now) {
  if (!waits_for_horovod_places()) return;
  const auto slot = horovod_members_.member(member);
  if (!slot || !membership_.owns(host, *slot)) return;
  horovod_watch_.update({}, {}, now);  // that meeting is over
  elastic_->at_door(*slot, true, now);
  carry_out(now);
}

Job::Arrival Job::horovod_arrives(std::uint32_t host, std::uint32_t rank, bool has_come,
                                  TimePoint now) {
  if (!waits_for_horovod_places()) return Arrival::member;
  const auto& order = membership_.order();
  const bool is_member = rank < order.size() && membership_.owns(host, order[rank]) &&
                         elastic_->state_of(order[rank]) == SlotState::member;
  if (is_member && !has_come && elastic_->is_meeting()) return Arrival::member;
  for (const std::uint32_t slot : horovod_members_.promised(rank)) {
    if (!membership_.owns(host, slot)) continue;
    elastic_->at_door(slot, true, now);
    carry_out(now);
    return Arrival::newcomer;
  }
  return is_member ? Arrival::member : Arrival::nobody;
}

void Job::horovod_met(TimePoint now) {
  if (!elastic_ || state_ != JobState::running) return;
  if (elastic_->opened(now)) first_loss_.reset();
  carry_out(now);
}

// Rank 0 tells the others at their next commit.
void Job::send_notice() {
  notice_waits_ = false;
  const std::uint32_t slot = membership_.order().front();
  const WorkerAddresses* const addresses = horovod_members_.addresses(slot);
  if (addresses == nullptr) {
    notice_waits_ = true;  // it has not entered yet
    return;
  }
  const std::uint32_t host = membership_.ranks()[slot].place.host;
  if (hosts_.hears(host))
    to_agent(host, HorovodNotice{slot, horovod_members_.next_notice(), addresses->endpoints,
                                 addresses->key});
}

void Job::horovod_ended(std::uint32_t slot) {
  if (const auto rank = horovod_members_.promise_of(slot))
    horovod_gone_.emplace_back(membership_.ranks()[slot].place.host, *rank);
  horovod_members_.ended(slot);
}

HorovodSlot Job::promise_to(std::uint32_t slot, const Assignment* promised) {
  if (promised == nullptr) return {};
  const auto rank = std::find(promised->slots.begin(), promised->slots.end(), slot);
  if (rank == promised->slots.end()) return {};
  HorovodSlot place =
      horovod_members_.places(*promised)[static_cast<std::size_t>(rank - promised->slots.begin())];
  horovod_members_.promise(slot, place);
  return place;
}

}  // namespace hvdrun
