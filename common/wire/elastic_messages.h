// The messages of an elastic job: a rank is lost, and the others go on.
//
// What a frame says of a process it says of its slot, whatever rank that has at the moment. A
// slot's number is its rank in the first epoch; so in a job that is not elastic both are one. What
// goes on to libhvd, and what libhvd says of others, names ranks of the epoch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/host/rank_place.h"
#include "common/process/kill_steps.h"
#include "common/wire/job_messages.h"

namespace hvdrun {

struct EpochMember {
  std::uint32_t slot = 0;
  RankPlace place;
  template <class V>
  void visit(V& v) {
    v(slot);
    v(place);
  }
};

// Coordinator -> agent: all members wait at their doors; let them in. The epoch of the frame is the
// new one. Nothing of an older one is answered any more.
struct BeginEpoch {
  static constexpr auto kType = MessageType::begin_epoch;
  std::vector<EpochMember> here;  // this host's members, in the order of their ranks
  std::string host_address;       // as in Launch; where hosts come and go it may be another one now
  template <class V>
  void visit(V& v) {
    v(here);
    v(host_address);
  }
};

// Coordinator -> agent: start the slot's program once more, as Launch said it. `slot` is one of the
// Launch's, or new.
struct StartSlot {
  static constexpr auto kType = MessageType::start_slot;
  RankPlace slot;           // its number is the rank of this place
  std::uint32_t start = 0;  // the first is 0
  HorovodSlot horovod{};    // what it is told as a program of Horovod; no host: as the slot
  template <class V>
  void visit(V& v) {
    v(slot);
    v(start);
    v(horovod);
  }
};

// Coordinator -> agent: end the slot's process and what it has started.
struct EndSlot {
  static constexpr auto kType = MessageType::end_slot;
  std::uint32_t slot = 0;
  bool is_late = true;  // others wait for it: it is killed at once; else it is not needed
  KillSteps steps;      // for one that is not needed, as in KillRanks
  template <class V>
  void visit(V& v) {
    v(slot);
    v(is_late);
    v(steps);
  }
};

// Coordinator -> agent -> workers: somebody waits to be let in. The members are to come to their
// doors, all at the same commit.
struct MeetingWanted {
  static constexpr auto kType = MessageType::meeting_wanted;
  template <class V>
  void visit(V&) {}
};

// Agent -> coordinator: the slot's process has joined and waits for the next epoch, or does not
// wait any more.
struct AtDoor {
  static constexpr auto kType = MessageType::at_door;
  std::uint32_t slot = 0;
  bool waits = true;
  std::string layout = {};  // as in WorkerJoin
  template <class V>
  void visit(V& v) {
    v(slot);
    v(waits);
    v(layout);
  }
};

// Worker -> agent -> coordinator: its program goes on when others are lost (elastic::run).
struct ElasticEntered {
  static constexpr auto kType = MessageType::elastic_entered;
  std::uint32_t slot = 0;   // put in by the agent
  std::string layout = {};  // as in WorkerJoin
  template <class V>
  void visit(V& v) {
    v(slot);
    v(layout);
  }
};

// Worker -> agent: another rank of its host has died, and the kernel may still be busy with it.
struct PeerDied {
  static constexpr auto kType = MessageType::peer_died;
  std::uint32_t rank = 0;
  template <class V>
  void visit(V& v) {
    v(rank);
  }
};

// Agent -> coordinator: nothing comes of the slot's process any more. How it ends is told once the
// kernel is done with it (RankExited).
struct SlotDying {
  static constexpr auto kType = MessageType::slot_dying;
  std::uint32_t slot = 0;
  bool dumps_core = false;
  template <class V>
  void visit(V& v) {
    v(slot);
    v(dumps_core);
  }
};

// Agent -> coordinator: it has been told that its host goes away soon (SIGTERM). Its ranks are to
// leave at the next commit.
struct HostLeaving {
  static constexpr auto kType = MessageType::host_leaving;
  template <class V>
  void visit(V&) {}
};

// A host that the job may use. Hosts have the numbers of the job's table; those that are not in it
// yet follow, in order.
struct ListedHost {
  std::uint32_t index = 0;
  std::string name;
  std::uint32_t slots = 0;
  bool reopens = false;  // it can be opened again when it is lost
  template <class V>
  void visit(V& v) {
    v(index);
    v(name);
    v(slots);
    v(reopens);
  }
};

// Driver -> coordinator: the hosts that the job may use from now on, the first ones first. Ranks on
// others leave at their next commit.
struct HostsListed {
  static constexpr auto kType = MessageType::hosts_listed;
  std::vector<ListedHost> hosts;
  std::vector<std::uint32_t> ended;  // hosts whose ranks are not waited for
  template <class V>
  void visit(V& v) {
    v(hosts);
    v(ended);
  }
};

// A user's command -> driver: what the job's hosts are to be from now on.
struct HostsOrder {
  static constexpr auto kType = MessageType::hosts_order;
  enum class Verb : std::uint8_t {
    add = 1,     // use these, too
    drain = 2,   // use them no more: their ranks leave at the next commit
    remove = 3,  // the same, and their ranks are ended at once
    reload = 4,  // read the list of hosts now; there are no hosts
  } verb{};
  std::vector<std::string> hosts;  // as items of -H
  template <class V>
  void visit(V& v) {
    v(verb);
    v(hosts);
  }
};

// Driver -> a user's command.
struct HostsReply {
  static constexpr auto kType = MessageType::hosts_reply;
  std::uint32_t exit_code = 0;
  std::string text;  // one line
  template <class V>
  void visit(V& v) {
    v(exit_code);
    v(text);
  }
};

// Coordinator -> driver: the job has these slots more, behind all others.
struct SlotsAdded {
  static constexpr auto kType = MessageType::slots_added;
  std::vector<RankPlace> slots;
  template <class V>
  void visit(V& v) {
    v(slots);
  }
};

// Coordinator -> driver: the host is lost, or new, and is to be opened as soon as it can be.
struct ReopenHost {
  static constexpr auto kType = MessageType::reopen_host;
  std::uint32_t host_index = 0;
  std::uint32_t opening = 0;  // the number of this one; the first of all is 0
  bool at_once = false;       // nothing has gone wrong: there is no pause before it
  template <class V>
  void visit(V& v) {
    v(host_index);
    v(opening);
    v(at_once);
  }
};

// Coordinator -> driver: the host is not needed any more, and nobody is to open it.
struct LeaveHost {
  static constexpr auto kType = MessageType::leave_host;
  std::uint32_t host_index = 0;
  template <class V>
  void visit(V& v) {
    v(host_index);
  }
};

// Coordinator -> driver: from now on these slots have these ranks.
struct EpochBegun {
  static constexpr auto kType = MessageType::epoch_begun;
  std::vector<EpochMember> members;
  template <class V>
  void visit(V& v) {
    v(members);
  }
};

}  // namespace hvdrun
