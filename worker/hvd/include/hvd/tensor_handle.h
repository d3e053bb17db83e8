// Collectives on tensors that go on while the program does something else. Included by
// <hvd/torch.h>.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <hvd/hvd.h>

namespace hvd {

// The form in which floating-point tensors of 32 and 64 bits travel: as they are, or rounded to 16
// bits. They are combined in float32 then, and a value that 16 bits cannot hold is infinite (fp16:
// from 65,520 on). Everything else travels as it is. Results have the tensor's own dtype.
enum class Compression : std::uint8_t { none, fp16, bf16 };

// An operation under way; holds the tensors that it reads and writes, which must not be changed
// before it has finished. Copies are the same operation. The last of them to go, if nobody has
// called synchronize(), waits for the operation and drops its result and its error. Not
// thread-safe.
class HVD_EXPORT TensorHandle {
 public:
  class State;
  explicit TensorHandle(std::shared_ptr<State> state);
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// As the functions of the same names without _async, which see; those in place write the tensor
// during the operation or in synchronize().
HVD_EXPORT TensorHandle allreduce_async(const at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                                        const ScaleFactors& scale = {},
                                        Compression compression = Compression::none,
                                        const OperationOptions& options = {});
HVD_EXPORT TensorHandle allreduce_async_(at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                                         const ScaleFactors& scale = {},
                                         Compression compression = Compression::none,
                                         const OperationOptions& options = {});
HVD_EXPORT TensorHandle grouped_allreduce_async(const std::vector<at::Tensor>& tensors,
                                                ReduceOp op = ReduceOp::average,
                                                const ScaleFactors& scale = {},
                                                Compression compression = Compression::none,
                                                const OperationOptions& options = {});
HVD_EXPORT TensorHandle grouped_allreduce_async_(const std::vector<at::Tensor>& tensors,
                                                 ReduceOp op = ReduceOp::average,
                                                 const ScaleFactors& scale = {},
                                                 Compression compression = Compression::none,
                                                 const OperationOptions& options = {});
HVD_EXPORT TensorHandle broadcast_async(const at::Tensor& tensor, int root = 0,
                                        const OperationOptions& options = {});
HVD_EXPORT TensorHandle broadcast_async_(at::Tensor& tensor, int root = 0,
                                         const OperationOptions& options = {});

// Operations on rows (torch.h says what they do), which are two steps: everybody's rows, then what
// the tensors hold. The second begins by itself when the first has ended, so ranks may submit and
// wait in any order. All ranks call those without a name with a handle, or all without one (but for
// sparse_allreduce). No such operation may have the name of one that has not been
// synchronized. hvd::join() waits until the second steps have been submitted.
HVD_EXPORT TensorHandle allgather_async(const at::Tensor& tensor,
                                        const OperationOptions& options = {});
HVD_EXPORT TensorHandle reducescatter_async(const at::Tensor& tensor,
                                            ReduceOp op = ReduceOp::average,
                                            const ScaleFactors& scale = {},
                                            Compression compression = Compression::none,
                                            const OperationOptions& options = {});
// synchronize_alltoall() gives the received splits besides.
HVD_EXPORT TensorHandle alltoall_async(const at::Tensor& tensor,
                                       const std::vector<std::int64_t>& splits = {},
                                       const OperationOptions& options = {});
HVD_EXPORT TensorHandle sparse_allreduce_async(const at::Tensor& tensor,
                                               ReduceOp op = ReduceOp::average,
                                               const OperationOptions& options = {});
// Many at once: nothing moves before all ranks have all of them. Their operations are called
// "NAME_1ofN" and so on.
HVD_EXPORT TensorHandle grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                                const OperationOptions& options = {});
HVD_EXPORT TensorHandle grouped_reducescatter_async(const std::vector<at::Tensor>& tensors,
                                                    ReduceOp op = ReduceOp::average,
                                                    const ScaleFactors& scale = {},
                                                    Compression compression = Compression::none,
                                                    const OperationOptions& options = {});

// True when synchronize() would return or throw at once.
HVD_EXPORT bool poll(const TensorHandle& handle);
// poll(), after waiting for at most `limit` until it is true.
HVD_EXPORT bool wait(const TensorHandle& handle, std::chrono::milliseconds limit);
// Waits for the operation and gives its result, or throws its error: the reduced tensor (in place:
// the tensor itself). Once; a second time is Error(invalid_argument).
HVD_EXPORT at::Tensor synchronize(const TensorHandle& handle);
// Those of a grouped operation, in the order of its tensors.
HVD_EXPORT std::vector<at::Tensor> synchronize_all(const TensorHandle& handle);

}  // namespace hvd
