// The seam between what the library promises and how bytes move: collectives on raw buffers.
//
// One thread at a time runs operations; abort(), peer_gone() and wake() come from any thread. After
// an operation has thrown, other than Differs, every later one throws too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/comm/buffer_row.h"
#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun {

// Somebody who wants to know that an operation waits for long.
struct SlowWatch {
  std::chrono::milliseconds after;  // and again after as much
  std::function<void()> tell;       // on the waiting thread
};

// Moments of an operation, for somebody who wants to know where its time goes. On the thread that
// runs it; an operation of several steps may tell them more than once, Differs ends it early.
struct OperationHooks {
  std::function<void()> arrived;  // this rank has, and has staged what comes first
  std::function<void()> agreed;   // all ranks have
};

struct CallOptions {
  // The time that the operation waits for the other ranks.
  std::chrono::milliseconds timeout{1'800'000};
  // The time that it waits besides before it gives up itself: somebody it waits for is about to say
  // what for.
  std::chrono::milliseconds grace{0};
  // The caller's own thread runs the operation and has nothing better to do than to spin.
  bool may_spin = false;
  // The caller's operation, when this one is only a step of it: ranks compare that, and errors name
  // it.
  const Descriptor* step_of = nullptr;
  // The fingerprint of what is called; the ranks compare it with the rest.
  std::uint64_t fingerprint = 0;
  // Both live as long as the operation.
  const SlowWatch* watch = nullptr;
  const OperationHooks* hooks = nullptr;
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
  // ReduceOp::adasum is made of these: adasum.h.
  virtual void allreduce(const void* input, void* output, std::size_t count,
                         const Reduction& reduction, const CallOptions& options) = 0;
  // The parts in a row as one operation, whose result is that of the elements in one buffer.
  // Parts may differ between ranks, their total may not.
  virtual void grouped_allreduce(const std::vector<BufferPart>& buffers, const Reduction& reduction,
                                 const CallOptions& options) = 0;
  virtual void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                         const CallOptions& options) = 0;
  virtual void allgather(const void* input, void* output, const std::size_t* counts,
                         hvd::DataType type, const CallOptions& options) = 0;
  virtual void reducescatter(const void* input, void* output, const std::size_t* counts,
                             const Reduction& reduction, const CallOptions& options) = 0;
  virtual void alltoall(const void* input, const std::size_t* send_counts, void* output,
                        const std::size_t* receive_counts, hvd::DataType type,
                        const CallOptions& options) = 0;
  // The same operation, where this rank's input are the inputs of `row` from element `begin` on.
  // Not in place.
  virtual void alltoall_from(const BufferRow& row, std::size_t begin,
                             const std::size_t* send_counts, void* output,
                             const std::size_t* receive_counts, hvd::DataType type,
                             const CallOptions& options) = 0;
  virtual void barrier(const CallOptions& options) = 0;

  // The pending operation and all later ones throw this error.
  virtual void abort(const hvd::Error& reason) = 0;
  // Rank `rank` takes part in nothing any more: operations that it has not done its part of throw
  // this error, those that it has still complete.
  virtual void peer_gone(int rank, const hvd::Error& reason) = 0;

  // Between operations, for a rank that may have nothing to call: true when another rank waits in
  // the next operation; false after `limit`, or after wake(). Throws when the next operation
  // cannot succeed, as all later ones will.
  virtual bool await_others(std::chrono::milliseconds limit) = 0;
  virtual void wake() = 0;
};

// One for the ranks of a host, of which operations across hosts are made.
class HostCommunicator : public Communicator {
 public:
  // An allgather, where this rank wants the others' elements, but not its own, in the outputs of
  // `row` from element `begin` on.
  virtual void allgather_to(const void* input, const BufferRow& row, std::size_t begin,
                            const std::size_t* counts, hvd::DataType type,
                            const CallOptions& options) = 0;
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
