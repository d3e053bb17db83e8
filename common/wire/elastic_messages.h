// The messages of an elastic job: a rank is lost, and the others go on.
//
// What a frame says of a process it says of its slot, whatever rank that has at the moment. A
// slot's number is its rank in the first epoch; so in a job that is not elastic both are one. What
// goes on to libhvd, and what libhvd says of others, names ranks of the epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/host/rank_place.h"
#include "common/wire/base_messages.h"

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
  template <class V>
  void visit(V& v) {
    v(here);
  }
};

// Coordinator -> agent: start the slot's program again, as Launch said it.
struct StartSlot {
  static constexpr auto kType = MessageType::start_slot;
  std::uint32_t slot = 0;
  std::uint32_t start = 0;  // the first is 0
  template <class V>
  void visit(V& v) {
    v(slot);
    v(start);
  }
};

// Coordinator -> agent: kill the slot's process and what it has started, at once.
struct EndSlot {
  static constexpr auto kType = MessageType::end_slot;
  std::uint32_t slot = 0;
  template <class V>
  void visit(V& v) {
    v(slot);
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
  template <class V>
  void visit(V& v) {
    v(slot);
    v(waits);
  }
};

// Worker -> agent -> coordinator: its program goes on when others are lost (elastic::run).
struct ElasticEntered {
  static constexpr auto kType = MessageType::elastic_entered;
  std::uint32_t slot = 0;  // put in by the agent
  template <class V>
  void visit(V& v) {
    v(slot);
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

// Coordinator -> driver: the host is lost, and is to be opened again as soon as it can be.
struct ReopenHost {
  static constexpr auto kType = MessageType::reopen_host;
  std::uint32_t host_index = 0;
  std::uint32_t opening = 0;  // the number of this one; the first of all is 0
  template <class V>
  void visit(V& v) {
    v(host_index);
    v(opening);
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
