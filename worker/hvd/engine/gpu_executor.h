// The engine's way to run operations on GPU memory: an NCCL communicator of the engine's ranks,
// made by the first of them.
//
// NCCL compares nothing: ranks that call different things, or in different orders, hang. So the
// ranks meet on the CPU before each operation, by the engine's communicator. There they say what
// they mean, as in the first meeting of any other operation. Then each queues it on its GPU and
// goes on. No host waits for a GPU.
//
// One rank alone needs no NCCL, and what leaves its buffers as they are is not even queued.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/engine/operation.h"
#include "worker/hvd/gpu/rank_gpu.h"

namespace hvdrun {

struct GpuSplit;

class GpuExecutor {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // `host`: where the ranks meet; it must outlive this. `names`: as for EngineOptions::rank_names.
  // `connect_timeout`: for making the NCCL communicator. `leave_timeout`: as
  // EngineOptions::gpu_leave_timeout. `id`: as EngineOptions::gpu_id.
  GpuExecutor(std::shared_ptr<RankGpu> gpu, Communicator& host, std::vector<int> names,
              Milliseconds connect_timeout, Milliseconds leave_timeout,
              std::optional<nccl::UniqueId> id = {});
  GpuExecutor(const GpuExecutor&) = delete;
  GpuExecutor& operator=(const GpuExecutor&) = delete;
  // close()
  ~GpuExecutor();

  // Any thread.
  // The operation comes after what is on its caller's stream now.
  void mark(DeviceUse& use) const;
  // Later work on the caller's stream runs after the operation, which has been run here. Throws the
  // communicator's error.
  void order(const DeviceUse& use) const;
  // True: the GPU has ended it, or one that has failed since.
  bool has_ended(const DeviceUse& use) const;

  // On the thread that is in the engine's communicator; all ranks together. One operation, or
  // allreduces as one. Throws Differs when the ranks mean different things
  // (CallOptions::fingerprint). After an error that only this rank may have had the engine's
  // communicator is broken, on all. `span`: as in GpuCall.
  void perform(const std::vector<const Operation*>& operations, const CallOptions& options,
               std::shared_ptr<GpuSpan> span = {});
  // For a rank that has joined: puts the operation's buffers, of which only `input` has a content,
  // into memory of the GPU. What it returns gives the memory back, after it has waited for the GPU.
  std::shared_ptr<void> lend(Operation& operation, const std::vector<std::byte>& input,
                             std::size_t output_bytes);

  // A communicator that the ranks have made already (GpuSplit); before the first operation.
  void adopt(std::unique_ptr<NcclCommunicator> made);

  // After the last operation: waits for what is queued. On the thread that is in the engine's
  // communicator.
  void close() noexcept;

 private:
  struct Readiness;
  struct Outcome;
  struct Splittable;
  class Loan;

  void meet(const Operation& operation, const CallOptions& options);
  void compare_counts(const Operation& operation, const CallOptions& options);
  void agree_on_counts(const Operation& operation, const CallOptions& options);
  void connect(const CallOptions& options);
  void connect_alone();
  void split(GpuSplit& wanted, const CallOptions& options);
  void exchange_outcomes(const std::optional<hvd::Error>& own, const CallOptions& options);
  bool is_nothing(const std::vector<const Operation*>& operations) const;
  GpuTicket queue(const std::vector<const Operation*>& operations, const GpuCall& call);
  [[noreturn]] void break_off(const hvd::Error& error);
  template <class Record>
  std::vector<Record> gather(const Record& own, const CallOptions& options);
  std::shared_ptr<void> lend_now(Operation& operation, const std::vector<std::byte>& input,
                                 std::size_t output_bytes);
  std::string rank_text(std::size_t rank) const;

  const std::shared_ptr<RankGpu> gpu_;
  Communicator& host_;
  const std::vector<int> names_;
  const Milliseconds connect_timeout_;
  const Milliseconds leave_timeout_;
  const std::optional<nccl::UniqueId> id_;  // for the one communicator that is made
  const std::shared_ptr<GpuEvents> events_;
  // Set once, before the first ticket is given out.
  std::unique_ptr<NcclCommunicator> communicator_;
  // There is no communicator to use, on any rank.
  std::optional<hvd::Error> failure_;
  GpuTicket last_ = 0;
  Milliseconds patience_{0};  // for it
};

}  // namespace hvdrun
