// Horovod's store, for the ranks of this host.
#include <algorithm>
#include <system_error>

#include "worker/agent/agent.h"

namespace hvdrun {

// False when there is no port for it: none of the ranks starts, since each would take itself for
// the only one.
bool Agent::serve_horovod(const Launch& message) {
  try {
    horovod_ = std::make_unique<MirrorServer>(
        io_, epoch_,
        [this](std::string frame) {
          if (control_) control_->send_bytes(std::move(frame));
        },
        [this](const std::string& trouble) {
          up(Log{LogLevel::warn, bootstrap_.host_name + ": " + trouble});
        });
    return true;
  } catch (const std::system_error& e) {
    for (const RankPlace& slot : message.slots) {
      up(RankExited{slot.rank, 0, ExitKind::not_started,
                    static_cast<std::uint32_t>(e.code().value()), ladder_.started(), false,
                    e.what()});
      workers_server_->rank_exited(slot.rank, "it could not start");
      if (gets_input(slot.rank) && output_) output_->send(InputClosed{slot.rank});
    }
    return false;
  }
}

// The place that a rank is told as a program of Horovod.
HorovodPlace Agent::horovod_place(const Launch& message, const RankPlace& slot) const {
  HorovodPlace place;
  if (!message.env_horovod) return place;
  place.port = horovod_ ? horovod_->port() : message.horovod_port;
  place.host_name = bootstrap_.host_name;
  place.place = slot;
  place.elastic = message.elastic;
  // Where it sees other hosts: names of one machine.
  const auto at = std::find_if(message.slots.begin(), message.slots.end(),
                               [&](const RankPlace& one) { return one.rank == slot.rank; }) -
                  message.slots.begin();
  if (static_cast<std::size_t>(at) < message.horovod_slots.size()) {
    place.host_name = message.horovod_slots[at].host;
    place.place = message.horovod_slots[at].place;
  }
  return place;
}

// The place that the slot's next process is told, where the coordinator says it.
void Agent::tell_horovod(const StartSlot& message) {
  if (!again_ || message.horovod.host.empty()) return;
  auto& told = again_->horovod_slots;
  for (std::size_t at = 0; at < again_->slots.size(); ++at) {
    if (told.size() <= at) told.push_back({bootstrap_.host_name, again_->slots[at]});
    if (again_->slots[at].rank == message.slot.rank) told[at] = message.horovod;
  }
}

void Agent::notify_horovod(HorovodNotice message) {
  if (!notifier_)
    notifier_ = std::make_unique<HostsNotifier>(io_, [this](const std::string& trouble) {
      up(Log{LogLevel::warn, bootstrap_.host_name + ": " + trouble});
    });
  notifier_->tell(std::move(message));
}

}  // namespace hvdrun
