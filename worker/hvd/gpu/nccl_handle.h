// One ncclComm_t, and who may use it: a call into NCCL at a time, and after an abort none. NCCL
// frees the communicator in an abort, whatever other threads do with it.
#pragma once

#include <chrono>

#include "common/base/mutex.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun {

// For another thread's call into NCCL, which does not block: a fault when it takes that long.
inline constexpr std::chrono::milliseconds kCallPatience{60'000};

class NcclHandle {
 public:
  explicit NcclHandle(nccl::Comm comm = nullptr) : comm_(comm) {}
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ~NcclHandle() = default;

  // For as long as it lives the communicator is this thread's; null when it is gone, or when
  // another thread has it for longer than `patience`.
  class Use {
   public:
    explicit Use(NcclHandle& handle, std::chrono::milliseconds patience);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();
    nccl::Comm comm() const { return comm_; }

   private:
    NcclHandle& handle_;
    nccl::Comm comm_ = nullptr;
    bool entered_ = false;
  };

  void set(nccl::Comm comm);
  bool is_empty();
  // Takes the communicator away, to be aborted or destroyed: null for all others from now on, and
  // here too when it was gone. Waits for a call under way, but not for longer than `patience`: one
  // that hangs in NCCL ends only by the abort.
  nccl::Comm take(std::chrono::milliseconds patience);

 private:
  friend class Use;
  Mutex mutex_;
  CondVar free_;
  nccl::Comm comm_ HVD_GUARDED_BY(mutex_);
  bool used_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvdrun
