#include "worker/comm/self_communicator.h"

#include <cstring>
#include <optional>

#include "common/mutex.h"

namespace hvdrun {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  // A sum over one rank and its average are the input itself.
  void allreduce(const void* input, void* output, std::size_t count, hvd::DataType type,
                 hvd::ReduceOp /*op*/, const CallOptions& /*options*/) override {
    copy(input, output, count, type);
  }
  void broadcast(void* /*data*/, std::size_t /*count*/, hvd::DataType /*type*/, int /*root*/,
                 const CallOptions& /*options*/) override {
    check();
  }
  void allgather(const void* input, void* output, std::size_t count, hvd::DataType type,
                 const CallOptions& /*options*/) override {
    copy(input, output, count, type);
  }
  void barrier(const CallOptions& /*options*/) override { check(); }

  void abort(const hvd::Error& reason) override {
    const MutexLock lock(mutex_);
    if (!aborted_) aborted_ = reason;
  }
  void peer_gone(int /*rank*/, const hvd::Error& /*reason*/) override {}

 private:
  void copy(const void* input, void* output, std::size_t count, hvd::DataType type) {
    check();
    if (input != output && count > 0) std::memcpy(output, input, count * element_size(type));
  }
  void check() {
    const MutexLock lock(mutex_);
    if (aborted_) throw hvd::Error(*aborted_);
  }

  Mutex mutex_;
  std::optional<hvd::Error> aborted_ HVD_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace hvdrun
