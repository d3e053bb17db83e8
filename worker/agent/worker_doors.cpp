// The doors of an elastic job: processes that wait to be let into the next epoch.
#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "worker/agent/worker_server.h"

namespace hvdrun {

// Its welcome tells the process that it waits for others, and not for this agent.
void WorkerServer::wait_at_door(std::uint32_t slot, const Channel& channel, pid_t peer,
                                std::string layout) {
  greeting_.erase(channel);
  Line& line = lines_[slot];
  line.door = channel;
  line.door_pid = peer;
  // Nothing that a process says at its door means anything but that it is there.
  const auto leave = [this, slot, weak = std::weak_ptr(channel)] {
    if (const auto gone = weak.lock()) leave_door(slot, gone);
  };
  channel->set_callbacks([leave](const Frame&) { leave(); }, [leave](std::error_code) { leave(); });
  channel->send(Welcome{}, options_.epoch);
  up(AtDoor{slot, true, std::move(layout)});
}

void WorkerServer::leave_door(std::uint32_t slot, const Channel& channel) {
  Line& line = lines_[slot];
  if (line.door != channel) return;
  line.door->close();
  line.door.reset();
  up(AtDoor{slot, false, {}});
}

void WorkerServer::slot_restarts(std::uint32_t slot) {
  if (lines_[slot].channel) lose(slot, false, "it is started again");
  if (lines_[slot].door) lines_[slot].door->close();
  lines_[slot] = {};
  // It belongs to the next epoch, whatever the last process had to do with this one.
  have_joined_.insert(slot);
}

void WorkerServer::begin_epoch(std::uint32_t epoch, const std::vector<EpochMember>& members,
                               std::string data_key, std::string host_address) {
  for (const auto& [slot, line] : lines_)
    if (line.channel) lose(slot, false, "it did not come to meet the others");
  options_.epoch = epoch;
  options_.data_key = std::move(data_key);
  options_.host_address = std::move(host_address);
  members_.clear();
  for (const EpochMember& member : members)
    if (lines_.contains(member.slot)) members_[member.slot] = member.place;
  have_joined_.clear();
  fence_ = 0;
  segments_.clear();
  for (const auto& [slot, place] : members_) {
    const Line& line = lines_[slot];
    if (line.door) let_in(slot, Channel(line.door), line.door_pid);
  }
  // The coordinator could not know yet of a process that has ended meanwhile. The other hosts hear
  // of it from there, those of this one from nobody else.
  for (const auto& [slot, place] : members_) {
    if (!lines_[slot].exited) continue;
    have_joined_.insert(slot);
    peer_lost({place.rank, false, lines_[slot].how});
  }
}

// Its line stays open: what it has said last may still be in there.
void WorkerServer::slot_dying(std::uint32_t slot, const std::string& how) {
  if (is_member(slot)) peer_lost({members_.at(slot).rank, false, how});
}

// Ranks of a job are processes of one user, who could end each other anyway.
Errc WorkerServer::on_peer_died(const Frame& frame) {
  PeerDied message;
  if (!options_.elastic) return Errc::unexpected_message;
  if (decode(frame.payload, message)) return Errc::malformed;
  const auto dead = std::find_if(members_.begin(), members_.end(), [&](const auto& member) {
    return member.second.rank == message.rank;
  });
  if (dead == members_.end()) return Errc::malformed;
  const Line& line = lines_[dead->first];
  if (line.channel && !line.exited && options_.slot_died) options_.slot_died(dead->first);
  return Errc::ok;
}

void WorkerServer::meeting_wanted() {
  for (const auto& [slot, line] : lines_) down(slot, MeetingWanted{});
}

}  // namespace hvdrun
