#include "worker/hvd/comm/self_communicator.h"

#include <cstring>
#include <optional>

#include "common/base/mutex.h"
#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun {
namespace {

class SelfCommunicator final : public HostCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                 const CallOptions& /*options*/) override {
    check();
    const auto* const source = static_cast<const std::byte*>(input);
    auto* const target = static_cast<std::byte*>(output);
    if (count > 0) reduce_buffers(&source, 1, count, reduction, &target, 1);
  }
  void grouped_allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                         const CallOptions& options) override {
    for (const BufferPart& part : parts)
      allreduce(part.input, part.output, part.count, reduction, options);
  }
  void broadcast(void* /*data*/, std::size_t /*count*/, hvd::DataType /*type*/, int /*root*/,
                 const CallOptions& /*options*/) override {
    check();
  }
  void allgather(const void* input, void* output, const std::size_t* counts, hvd::DataType type,
                 const CallOptions& /*options*/) override {
    copy(input, output, counts[0], type);
  }
  void reducescatter(const void* input, void* output, const std::size_t* counts,
                     const Reduction& reduction, const CallOptions& options) override {
    allreduce(input, output, counts[0], reduction, options);
  }
  void alltoall(const void* input, const std::size_t* send_counts, void* output,
                const std::size_t* receive_counts, hvd::DataType type,
                const CallOptions& /*options*/) override {
    if (send_counts[0] != receive_counts[0])
      throw hvd::Error(hvd::ErrorCode::mismatch,
                       "alltoall: rank 0 sends " + std::to_string(send_counts[0]) +
                           " elements to itself and expects " + std::to_string(receive_counts[0]));
    copy(input, output, send_counts[0], type);
  }
  void alltoall_from(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                     void* output, const std::size_t* receive_counts, hvd::DataType type,
                     const CallOptions& options) override {
    alltoall(output, send_counts, output, receive_counts, type, options);
    row.copy_inputs(begin, send_counts[0], static_cast<std::byte*>(output));
  }
  void barrier(const CallOptions& /*options*/) override { check(); }

  void allgather_to(const void* /*input*/, const BufferRow& /*row*/, std::size_t /*begin*/,
                    const std::size_t* /*counts*/, hvd::DataType /*type*/,
                    const CallOptions& /*options*/) override {
    check();
  }

  void compare(const Descriptor& /*operation*/, const CallOptions& /*options*/) override {
    check();
  }
  void give_up(const hvd::Error& reason) override { abort(reason); }

  void abort(const hvd::Error& reason) override {
    const MutexLock lock(mutex_);
    if (!aborted_) aborted_ = reason;
  }
  void peer_gone(int /*rank*/, const hvd::Error& /*reason*/) override {}
  bool await_others(std::chrono::milliseconds /*limit*/) override {
    check();
    return false;
  }
  void wake() override {}

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

std::unique_ptr<HostCommunicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace hvdrun
