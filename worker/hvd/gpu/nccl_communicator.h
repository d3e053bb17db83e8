// The collectives of worker/hvd/comm/communicator.h on memory of a GPU, by NCCL. They only queue:
// what is on the caller's stream before a call is done before it, and what the caller queues after
// it sees its results; no host thread waits for the GPU.
//
// A communicator of one rank calls no NCCL: it is connected as it is made, and there need be none.
//
// One thread at a time runs operations; abort(), look() and peer_gone() come from any thread. After
// an operation has thrown, other than for its own arguments, every later one throws too. Results
// are not the same bits as on CPUs: the order in which NCCL combines is its own. What else differs
// is in the table of <hvd/numbers.h>.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/gpu/abort.h"
#include "worker/hvd/gpu/gpu_device.h"
#include "worker/hvd/gpu/kernels.h"
#include "worker/hvd/gpu/nccl_handle.h"
#include "worker/hvd/gpu/nccl_plan.h"
#include "worker/hvd/gpu/stream.h"
#include "worker/hvd/gpu/timings.h"

namespace hvdrun {

struct GpuCall {
  cuda::Stream stream = nullptr;  // the caller's
  // The time that the operation waits for the other ranks: looked at by look(), on the GPU's side
  // too.
  std::chrono::milliseconds timeout{1'800'000};
  // In the stream's place, for what was submitted earlier, by another thread: the operation comes
  // after these events, and lead() puts what follows behind it.
  const std::vector<cuda::Event>* after = nullptr;
  // The operation becomes part of the graph that captures those events: it runs whenever the graph
  // does, and here never. With `after` only.
  bool captured = false;
  // Told when the GPU has begun and ended it. Null: nobody; what is captured tells nothing.
  std::shared_ptr<GpuSpan> span = {};
};

// The common parts of a rank's communicators.
struct GpuParts {
  std::shared_ptr<const CudaDriver> driver;  // the others use it to their end
  std::shared_ptr<const NcclLibrary> nccl;   // null: for communicators of one rank only
  std::shared_ptr<const GpuDevice> device;
  std::shared_ptr<const GpuKernels> kernels;  // null: there are none
  std::string no_kernels;                     // then: why
  // Bytes of the GPU's memory, at most, for what min and max pass through (nccl_ordered.cpp).
  std::size_t key_bytes = 32U << 20;
  std::shared_ptr<GpuAborts> aborts = std::make_shared<GpuAborts>();
};

// The number of an operation of this communicator, from 1; 0 has always ended.
using GpuTicket = std::uint64_t;
// The ticket of operations of graphs, which count for themselves: as tickets they have ended at
// once, since nobody sees them run.
inline constexpr GpuTicket kCapturedTicket = GpuTicket{1} << 63U;

class NcclCommunicator {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using TimePoint = std::chrono::steady_clock::time_point;

  // The communicator of `rank` among `size`, on the device's own stream of high priority. `names`:
  // what the job calls them, for words (a process set); none: the same numbers. Not connected yet.
  NcclCommunicator(GpuParts parts, int rank, int size, std::vector<int> names = {});
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  // Aborts what close() has not ended.
  ~NcclCommunicator();

  // The id of a new communicator, made in the process of its rank 0 and given to all (by
  // GpuExecutor): NCCL then listens on an address of that process until all ranks have come.
  static nccl::UniqueId make_id(const NcclLibrary& nccl);
  // Returns when all ranks have called it. NCCL itself would wait for a missing one for ever. One
  // rank needs none, and takes it as done.
  void connect(const nccl::UniqueId& id, Milliseconds timeout);
  // For all ranks together: waits for what is queued, and leaves. Aborts when that takes too long.
  void close(Milliseconds timeout) noexcept;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // As in worker/hvd/comm/communicator.h. The ticket's event comes after the results. Of one rank
  // 16-bit integers, too, which NCCL cannot reduce, and adasum without our kernels.
  GpuTicket allreduce(const void* input, void* output, std::size_t count,
                      const Reduction& reduction, const GpuCall& call);
  // Many buffers as one operation: NCCL runs them as one group. The same counts on all ranks.
  GpuTicket allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                      const GpuCall& call);
  GpuTicket broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                      const GpuCall& call);
  GpuTicket allgather(const void* input, void* output, const std::size_t* counts,
                      hvd::DataType type, const GpuCall& call);
  GpuTicket reducescatter(const void* input, void* output, const std::size_t* counts,
                          const Reduction& reduction, const GpuCall& call);
  GpuTicket alltoall(const void* input, const std::size_t* send_counts, void* output,
                     const std::size_t* receive_counts, hvd::DataType type, const GpuCall& call);
  // The only one that the host waits for.
  void barrier(const GpuCall& call);

  // Later work on `stream` runs after the operation. No host waits. Throws the communicator's
  // error.
  void lead(GpuTicket ticket, cuda::Stream stream);
  // True: the operation has ended on the GPU. Throws the communicator's error.
  bool has_ended(GpuTicket ticket);
  // Waits for it on the host.
  void wait(GpuTicket ticket, Milliseconds timeout);

  // A trouble that no call has told: an error of NCCL's that came later, an operation past its
  // deadline, a fault of the GPU. For GpuWatch, which calls it again and again; `now` is its clock.
  // Stops nothing.
  std::optional<hvd::Error> look(TimePoint now);
  // From now on every call throws this. False: it had failed before, for another reason.
  bool set_failure(const hvd::Error& reason);

  // Tells the operations' spans what is known by now; look() does so, too.
  void tell_times();

  // Something is queued that has not ended, or may be run again by a graph, or has not told its
  // times: look() has something to look at.
  bool is_busy();
  // True: something of NCCL's is under way that the end of the process would wait for.
  bool holds_up_exit();
  // Called after an operation has been entered, from its thread. Set while none is.
  void on_queued(std::function<void()> call) { on_queued_ = std::move(call); }

  // It can do nothing any more: every operation throws.
  bool has_failed() { return failure().has_value(); }
  // The pending operation and all later ones throw this error, and NCCL's kernels leave the GPU.
  // Waits for that, as who has found an error itself does not: NCCL may take seconds.
  void abort(const hvd::Error& reason);
  // All of them at once: one abort after the other would hang where a kernel of the second keeps
  // the first from ending. They fail at once; the aborts end later, on threads of their own.
  using Aborts = std::vector<std::shared_ptr<GpuAbort>>;
  static Aborts begin_aborts(std::span<NcclCommunicator* const> communicators,
                             const hvd::Error& reason);
  // False when one does not end in time; it is left to itself.
  static bool wait_for_aborts(const Aborts& aborts);
  // NCCL can do nothing without a rank: as abort().
  void peer_gone(int rank, const hvd::Error& reason);

  // Functions of newer versions of NCCL. All three throw Error(unavailable) where they are missing.
  // A communicator of one rank comes without NCCL. A communicator of some ranks of this one; called
  // by all ranks, with nothing of it under way, `members` are ascending. Null on those that are
  // none. The two share nothing: each may be used beside the other, and ends for itself. For
  // process sets (GpuExecutor::split).
  std::unique_ptr<NcclCommunicator> split(const std::vector<int>& members, Milliseconds timeout);
  // NCCL can split, and no graph has operations of this communicator, which may run at any time.
  bool may_split();
  // Stops what is queued and lets nothing new in (later operations throw `reason`), but keeps the
  // communicator for shrink(). Neither has a caller as long as a job ends with its first rank that
  // dies (docs/design/gpu.md): one that goes on without a rank would call them.
  void revoke(const hvd::Error& reason, Milliseconds timeout);
  // A communicator without the ranks `gone`, called by all others; what is queued is stopped first.
  std::unique_ptr<NcclCommunicator> shrink(std::vector<int> gone, Milliseconds timeout);

 private:
  // An operation that has been submitted and not been seen to end.
  struct Pending {
    GpuTicket ticket = 0;
    Descriptor what;
    Milliseconds timeout{};
    TimePoint deadline;
    cuda::Event event = nullptr;  // null while it is being queued
  };
  class Scratch;

  bool is_alone() const { return size_ == 1; }
  // One of this rank only.
  std::unique_ptr<NcclCommunicator> alone() const;
  const nccl::Api& api() const { return parts_.nccl->api; }
  // "rank 3 on GPU 1 (NVIDIA H200)"
  std::string who() const;
  [[noreturn]] void fail(const hvd::Error& error);
  [[noreturn]] void fail(nccl::Result result, nccl::Comm comm, const std::string& what);
  // There is none to use: it has failed, was never connected, or another call does not return.
  [[noreturn]] void no_communicator(const std::string& what);
  std::shared_ptr<GpuAbort> begin_abort();
  std::optional<hvd::Error> failure();
  void throw_if_failed();

  // Waits until the communicator's state is not "in progress".
  void settle(const std::string& what, TimePoint deadline, Milliseconds timeout,
              bool even_failed = false);
  // A short wait that an abort ends.
  void pause(int turn);
  std::unique_ptr<NcclCommunicator> adopt(nccl::Comm* slot, int rank,
                                          const std::vector<int>& members, const std::string& what,
                                          Milliseconds timeout);

  // Queues an operation: `before` and `after` put kernels on our stream, `group` calls NCCL within
  // one group and returns the first result that is no success.
  template <class Before, class Group, class After>
  GpuTicket run(const Descriptor& what, const GpuCall& call, Before&& before, Group&& group,
                After&& after);
  // With several groups, one after the other on the stream: group(comm, round), after(round).
  template <class Before, class Group, class After>
  GpuTicket run_rounds(std::size_t rounds, const Descriptor& what, const GpuCall& call,
                       Before&& before, Group&& group, After&& after);
  // Each part is a vector of its own.
  GpuTicket adasum(const std::vector<BufferPart>& parts, const Reduction& reduction,
                   const GpuCall& call);
  // min and max of floating-point numbers (nccl_ordered.cpp).
  GpuTicket ordered_allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                              const NcclReduction& plan, const GpuCall& call);
  GpuTicket ordered_reducescatter(const void* input, void* output, const std::size_t* counts,
                                  const Reduction& reduction, const NcclReduction& plan,
                                  const GpuCall& call);
  // For one rank (nccl_alone.cpp).
  template <class Body>
  GpuTicket run_alone(const Descriptor& what, const GpuCall& call, Body&& body);
  GpuTicket lone_reduction(OpKind kind, const std::vector<BufferPart>& parts,
                           const Reduction& reduction, const GpuCall& call);
  GpuTicket lone_move(OpKind kind, const void* input, void* output, std::size_t count,
                      hvd::DataType type, const GpuCall& call);
  GpuTicket lone_barrier(const GpuCall& call);
  void enter(const Descriptor& what, const GpuCall& call);
  void leave(cuda::Event event);
  GpuTicket leave_captured(cuda::Event event);
  // The stream of the operation that is being queued.
  GpuStream& queue() { return in_graph_ ? graph_stream_ : stream_; }
  // Forgets what has ended. The device must be current.
  void retire();
  std::optional<hvd::Error> find_trouble(TimePoint now);
  void copy_on_stream(void* to, const void* from, std::size_t bytes);
  void check_kernel(int result, const char* what) const;
  const GpuKernels& kernels(const char* what) const;
  nccl::RedOp begin_op(const NcclReduction& plan, nccl::Comm comm, nccl::Result& result) const;
  void end_op(const NcclReduction& plan, nccl::Comm comm, nccl::RedOp op) const;
  void finish(const NcclReduction& plan, const Reduction& reduction, void* output,
              std::size_t count);

  GpuParts parts_;
  int rank_;
  int size_;
  std::vector<int> names_;
  GpuStream stream_;
  // The stream of what is captured: until its graph is closed it takes nothing else.
  GpuStream graph_stream_;
  GpuTimings timings_;
  std::function<void()> on_queued_;
  bool has_run_ = false;
  bool in_graph_ = false;       // the operation that is, or was last, queued
  Scratch* scratch_ = nullptr;  // of the operation that is queued, the newest
  // Outlives this where an abort hangs.
  std::shared_ptr<NcclHandle> handle_ = std::make_shared<NcclHandle>();
  bool revoked_ = false;

  Mutex mutex_;
  CondVar changed_;
  std::optional<hvd::Error> failure_ HVD_GUARDED_BY(mutex_);
  std::shared_ptr<GpuAbort> abort_ HVD_GUARDED_BY(mutex_);  // the last one
  std::deque<Pending> pending_ HVD_GUARDED_BY(mutex_);
  int waits_ HVD_GUARDED_BY(mutex_) = 0;  // for NCCL to be ready (settle)
  GpuTicket submitted_ HVD_GUARDED_BY(mutex_) = 0;
  GpuTicket ended_ HVD_GUARDED_BY(mutex_) = 0;
  // The events behind the newest operations of graphs, for lead().
  struct Captured {
    GpuTicket ticket = 0;
    cuda::Event event = nullptr;
  };
  std::deque<Captured> captured_ HVD_GUARDED_BY(mutex_);
  GpuTicket captured_count_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvdrun
