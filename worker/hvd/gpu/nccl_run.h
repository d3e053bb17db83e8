// The part that every operation of a communicator on GPUs has. For the sources of NcclCommunicator
// only.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "worker/hvd/gpu/gpu_error.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun {

// The first result that is no success, of calls within a group. "In progress" is one.
class FirstBad {
 public:
  explicit FirstBad(nccl::Result result = nccl::success) { add(result); }
  void add(nccl::Result result) {
    if (result_ == nccl::success && result != nccl::in_progress) result_ = result;
  }
  nccl::Result get() const { return result_; }

 private:
  nccl::Result result_ = nccl::success;
};

// Memory of the GPU for one operation, taken and given back in the order of the stream. It is given
// back as the operation's last: what is captured behind the event that ends it would be no part of
// the graph. Where the operation has failed it is given back here. The device must be current.
class NcclCommunicator::Scratch {
 public:
  explicit Scratch(NcclCommunicator& owner) : owner_(owner), others_(owner.scratch_) {
    owner_.scratch_ = this;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    owner_.scratch_ = others_;
    give_back();
  }
  void* take(std::size_t bytes) {
    check_cuda(
        owner_.parts_.device->api(),
        owner_.parts_.device->api().memory_alloc_async(&memory_, bytes, owner_.queue().get()),
        "cuMemAllocAsync of " + std::to_string(bytes) + " bytes");
    return get();
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has its addresses as numbers
  void* get() const { return reinterpret_cast<void*>(memory_); }
  void give_back() {
    const cuda::DevicePointer memory = std::exchange(memory_, 0);
    if (memory == 0) return;
    const DeviceToFree current(*owner_.parts_.device);
    if (current) owner_.parts_.device->api().memory_free_async(memory, owner_.queue().get());
  }
  Scratch* others() const { return others_; }

 private:
  NcclCommunicator& owner_;
  Scratch* const others_;  // of the same operation, made before
  cuda::DevicePointer memory_ = 0;
};

template <class Before, class Group, class After>
GpuTicket NcclCommunicator::run_rounds(std::size_t rounds, const Descriptor& what,
                                       const GpuCall& call, Before&& before, Group&& group,
                                       After&& after) {
  const CurrentDevice current(*parts_.device);
  enter(what, call);
  const TimePoint deadline = std::chrono::steady_clock::now() + call.timeout;
  in_graph_ = call.captured;
  try {
    if (call.after == nullptr)
      queue().follow(call.stream);
    else
      for (cuda::Event event : *call.after) queue().follow(event);
    const bool timed = call.span != nullptr && !call.captured;
    if (timed) timings_.begin(queue().get(), call.span);
    before();
    for (std::size_t round = 0; round < rounds; ++round) {
      FirstBad result;
      bool gone = false;
      {
        const NcclHandle::Use use(*handle_, kCallPatience);
        gone = use.comm() == nullptr;
        if (!gone) {
          result.add(api().group_start());
          result.add(group(use.comm(), round));
          // Also after an error: the group is the thread's, and must be closed.
          result.add(api().group_end());
        }
      }
      if (gone) no_communicator(describe(what));
      if (result.get() != nccl::success) fail(result.get(), nullptr, describe(what));
      // A communicator that does not block queues its kernels from a thread of NCCL's, so that an
      // event recorded before it has would say nothing. It waits for no GPU.
      settle(describe(what), deadline, call.timeout);
      after(round);
    }
    if (timed) timings_.end(queue().get());
    for (Scratch* one = scratch_; one != nullptr; one = one->others()) one->give_back();
    cuda::Event event = queue().lead(call.after == nullptr ? call.stream : queue().get());
    if (call.captured) return leave_captured(event);
    leave(event);
    // The first one has brought in what loads late, with handlers of its own for exit().
    if (!std::exchange(has_run_, true)) guard_exit();
  } catch (const hvd::Error& error) {
    if (failure()) throw;
    fail(hvd::Error(error.code(), who() + ": " + describe(what) + ": " + error.what()));
  }
  const MutexLock lock(mutex_);
  return submitted_;
}

template <class Before, class Group, class After>
GpuTicket NcclCommunicator::run(const Descriptor& what, const GpuCall& call, Before&& before,
                                Group&& group, After&& after) {
  return run_rounds(
      1, what, call, before, [&](nccl::Comm comm, std::size_t) { return group(comm); },
      [&](std::size_t) { after(); });
}

}  // namespace hvdrun
