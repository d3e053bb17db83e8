// The seam between what the library promises and how bytes move: collectives on raw buffers.
//
// One thread at a time runs operations; abort() and peer_gone() come from any thread. After an
// operation has thrown, other than for its own arguments, every later one throws too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include <hvd/hvd.h>

#include "worker/comm/descriptor.h"
#include "worker/comm/reduce.h"

namespace hvdrun {

struct CallOptions {
  // How long the operation waits for the other ranks.
  std::chrono::milliseconds timeout{1'800'000};
  // The caller's own thread runs the operation and has nothing better to do than to spin.
  bool may_spin = false;
  // What the caller called, when this operation is only a step of it: errors name that.
  const Descriptor* step_of = nullptr;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // As the functions of the same name in <hvd/hvd.h>; those with `counts` are the v ones there, and
  // every list of counts has size() elements. Arguments are checked by the caller
  // (Operation::check): pointers, counts whose bytes fit size_t, types, root, buffers that overlap.
  virtual void allreduce(const void* input, void* output, std::size_t count,
                         const Reduction& reduction, const CallOptions& options) = 0;
  virtual void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                         const CallOptions& options) = 0;
  virtual void allgather(const void* input, void* output, const std::size_t* counts,
                         hvd::DataType type, const CallOptions& options) = 0;
  virtual void reducescatter(const void* input, void* output, const std::size_t* counts,
                             const Reduction& reduction, const CallOptions& options) = 0;
  virtual void alltoall(const void* input, const std::size_t* send_counts, void* output,
                        const std::size_t* receive_counts, hvd::DataType type,
                        const CallOptions& options) = 0;
  virtual void barrier(const CallOptions& options) = 0;

  // The pending operation and all later ones throw this error.
  virtual void abort(const hvd::Error& reason) = 0;
  // Rank `rank` takes part in nothing any more: operations that it has not done its part of throw
  // this error, those that it has still complete.
  virtual void peer_gone(int rank, const hvd::Error& reason) = 0;
};

// One for the ranks of a host, of which operations across hosts are made.
class HostCommunicator : public Communicator {
 public:
  // A barrier that compares what the ranks are about to call.
  virtual void compare(const Descriptor& operation, const CallOptions& options) = 0;
  // This rank comes no more, and the others are told why: their pending operation throws. On the
  // thread of the operations; every later one here throws too.
  virtual void give_up(const hvd::Error& reason) = 0;
};

inline std::size_t sum_of(const std::size_t* counts, std::size_t ranks) {
  return std::accumulate(counts, counts + ranks, std::size_t{0});
}

// Bytes of one element; 0 for a type that there is not.
using hvd::detail::element_size;

}  // namespace hvdrun
