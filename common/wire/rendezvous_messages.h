// The messages of the ranks' rendezvous: fence, store, segments, and who is gone. They travel
// between worker and agent, and some on to the coordinator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/host/rank_place.h"
#include "common/wire/base_messages.h"

namespace hvdrun {

// Coordinator -> agent -> workers: a rank that the others may be waiting for is gone.
struct PeerLost {
  static constexpr auto kType = MessageType::peer_lost;
  std::uint32_t rank = 0;
  bool clean = false;  // it called hvd::shutdown
  std::string reason;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(clean);
    v(reason);
  }
};

// Coordinator -> agent -> workers: a rank of another host has given up the collectives of a process
// set, which the others may be waiting in, or come to later.
struct PeerGaveUp {
  static constexpr auto kType = MessageType::peer_gave_up;
  std::uint32_t rank = 0;
  std::uint32_t process_set = 0;  // its id; 0: all ranks
  Errc code{};
  std::string text;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(process_set);
    v(code);
    v(text);
  }
};

// Fences of an epoch are numbered from 0. A worker counts those of its own line; the agent puts the
// epoch's number in on the way up, once for all ranks of its host, and the worker's on the way
// down. The blob is rank 0's; everybody else's is empty.
struct FenceEnter {
  static constexpr auto kType = MessageType::fence_enter;
  std::uint32_t fence = 0;
  std::vector<std::uint32_t> ranks;
  std::string blob;
  template <class V>
  void visit(V& v) {
    v(fence);
    v(ranks);
    v(blob);
  }
};

struct FenceRelease {
  static constexpr auto kType = MessageType::fence_release;
  std::uint32_t fence = 0;
  std::string blob;
  template <class V>
  void visit(V& v) {
    v(fence);
    v(blob);
  }
};

struct FenceFailed {
  static constexpr auto kType = MessageType::fence_failed;
  std::uint32_t fence = 0;
  std::string reason;
  template <class V>
  void visit(V& v) {
    v(fence);
    v(reason);
  }
};

// `request` is chosen by whoever asks and comes back unchanged. On its way from a worker through
// the agent the agent puts its own number in and the worker's back.
struct StorePut {
  static constexpr auto kType = MessageType::store_put;
  std::uint64_t request = 0;
  std::string key;
  std::string value;
  template <class V>
  void visit(V& v) {
    v(request);
    v(key);
    v(value);
  }
};

struct StoreAck {
  static constexpr auto kType = MessageType::store_ack;
  std::uint64_t request = 0;
  Errc code{};
  template <class V>
  void visit(V& v) {
    v(request);
    v(code);
  }
};

// A get that waits until the key is there, or until timeout_ms have passed (0: answer at once).
struct StoreGet {
  static constexpr auto kType = MessageType::store_get;
  std::uint64_t request = 0;
  std::string key;
  std::uint32_t timeout_ms = 0;
  template <class V>
  void visit(V& v) {
    v(request);
    v(key);
    v(timeout_ms);
  }
};

struct StoreValue {
  static constexpr auto kType = MessageType::store_value;
  std::uint64_t request = 0;
  Errc code{};
  std::string value;
  template <class V>
  void visit(V& v) {
    v(request);
    v(code);
    v(value);
  }
};

// First frame of a worker after Hello.
struct WorkerJoin {
  static constexpr auto kType = MessageType::worker_join;
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  // A late process tells what its elastic state is of, in words. For another one than
  // its members have a job would meet for nothing. Empty: not known.
  std::string layout = {};
  template <class V>
  void visit(V& v) {
    v(rank);
    v(pid);
    v(layout);
  }
};

// The agent's answer: where this rank stands. The epoch of the frame is the current one.
struct WorkerTopology : RankPlace {
  static constexpr auto kType = MessageType::worker_topology;
  std::uint32_t usable_cores = 0;          // of this host
  std::vector<std::uint32_t> local_ranks;  // the global ranks on this host, by local rank
  std::string data_key;                    // what ranks of different hosts prove themselves with
  std::string address;                     // of this host, for them; both empty on a single host
  bool encrypt_data = false;               // they send each other TLS
  std::uint16_t first_port = 0;            // where they listen; 0: at any port
  std::uint16_t last_port = 0;
  bool elastic = false;              // the job can go on without a rank that is lost
  std::uint64_t stall_warning = 0;   // ms that an operation waits before it is told; 0: never
  std::uint64_t stall_shutdown = 0;  // ms before that ends the job; 0: never
  // The number of times that all ranks have met by now (fences that opened): the same for all that
  // meet next, in whatever process they are and whatever has failed there. Names what they share.
  std::uint32_t generation = 0;
  template <class V>
  void visit(V& v) {
    v(rank);  // the host's index is nothing to a worker
    v(size);
    v(local_rank);
    v(local_size);
    v(cross_rank);
    v(cross_size);
    v(usable_cores);
    v(local_ranks);
    v(data_key);
    v(address);
    v(encrypt_data);
    v(first_port);
    v(last_port);
    v(elastic);
    v(stall_warning);
    v(stall_shutdown);
    v(generation);
  }
};

// Shared memory of this host. The agent makes the memfd `name` on first request, zeroed and of that
// size. Every later asker gets the same one; a different size is Errc::mismatch.
struct SegmentGet {
  static constexpr auto kType = MessageType::segment_get;
  std::uint64_t request = 0;
  std::string name;
  std::uint64_t size = 0;
  template <class V>
  void visit(V& v) {
    v(request);
    v(name);
    v(size);
  }
};

// With code ok the memfd travels as SCM_RIGHTS with the first byte of this frame.
struct Segment {
  static constexpr auto kType = MessageType::segment;
  std::uint64_t request = 0;
  Errc code{};
  std::uint64_t size = 0;
  template <class V>
  void visit(V& v) {
    v(request);
    v(code);
    v(size);
  }
};

// Nobody will ask for this segment again: the agent closes it. Only for the worker's own memory,
// whose names begin with "mem/" and its rank.
struct SegmentDrop {
  static constexpr auto kType = MessageType::segment_drop;
  std::string name;
  template <class V>
  void visit(V& v) {
    v(name);
  }
};

struct WorkerLeave {
  static constexpr auto kType = MessageType::worker_leave;
  bool returns = false;  // to join again at once, in an elastic job's next epoch
  template <class V>
  void visit(V& v) {
    v(returns);
  }
};

// A collective of this worker failed; the agent passes it on as evidence.
struct CollectiveFailed {
  static constexpr auto kType = MessageType::collective_failed;
  Errc code{};
  std::string text;
  std::uint32_t process_set = 0;  // as in PeerGaveUp
  bool gives_up = false;          // none of this process set can run on this rank any more
  template <class V>
  void visit(V& v) {
    v(code);
    v(text);
    v(process_set);
    v(gives_up);
  }
};

}  // namespace hvdrun
