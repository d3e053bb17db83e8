#include <algorithm>
#include <utility>

#include <hvd/torch.h>

#include "worker/hvd/torch/cuda_stream.h"
#include "worker/hvd/torch/differentiable.h"
#include "worker/hvd/torch/tensor_handle.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

using State = hvd::TensorHandle::State;

// As it travels: contiguous, of the wire's dtype; the tensor itself where it is that.
at::Tensor on_wire(const at::Tensor& tensor, hvd::Compression compression) {
  return tensor.to(wire_type(tensor.scalar_type(), compression)).contiguous();
}

// Into a new tensor.
TensorPart out_of_place(const char* what, const at::Tensor& tensor, hvd::Compression compression) {
  check_tensor(what, tensor);
  const at::NoGradGuard no_grad;
  TensorPart part;
  part.input = on_wire(tensor, compression).detach();
  part.wire = at::empty(part.input.sizes(), part.input.options());
  part.type = tensor.scalar_type();
  part.stream = current_stream(tensor);
  return part;
}

TensorPart in_place(const char* what, const at::Tensor& tensor, hvd::Compression compression) {
  check_tensor(what, tensor);
  check_not_expanded(what, tensor);
  const at::NoGradGuard no_grad;
  TensorPart part;
  part.wire = on_wire(tensor, compression);
  part.input = part.wire;
  part.target = tensor;
  part.type = tensor.scalar_type();
  part.stream = current_stream(tensor);
  return part;
}

std::size_t count_of(const TensorPart& part) { return static_cast<std::size_t>(part.wire.numel()); }

void reduce(const char* what, const TensorPart& part, hvd::ReduceOp op,
            const hvd::ScaleFactors& scale, const hvd::OperationOptions& options) {
  hvd::allreduce(part.input.data_ptr(), part.wire.data_ptr(), count_of(part),
                 check_tensor(what, part.wire), op, scale, with_shape(options, part.wire));
}

hvd::TensorHandle reduce_async(const char* what, TensorPart part, hvd::ReduceOp op,
                               const hvd::ScaleFactors& scale,
                               const hvd::OperationOptions& options) {
  auto state = std::make_shared<State>();
  state->parts.push_back(std::move(part));
  const TensorPart& held = state->parts.front();
  state->handles.push_back(hvd::allreduce_async(held.input.data_ptr(), held.wire.data_ptr(),
                                                count_of(held), check_tensor(what, held.wire), op,
                                                scale, with_shape(options, held.wire)));
  return hvd::TensorHandle(std::move(state));
}

void set_grouped_backward(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs,
                          hvd::ReduceOp op, const hvd::ScaleFactors& scale,
                          hvd::Compression compression, const hvd::OperationOptions& options) {
  set_backward("grouped_allreduce", inputs, outputs, [=](const std::vector<at::Tensor>& gradients) {
    check_linear("grouped_allreduce", op);
    return hvd::grouped_allreduce(gradients, op, scale, compression, backward_options(options));
  });
}

std::shared_ptr<State> group_state(const std::vector<at::Tensor>& tensors,
                                   hvd::Compression compression, bool is_in_place) {
  auto state = std::make_shared<State>();
  for (const at::Tensor& tensor : tensors)
    state->parts.push_back(is_in_place ? in_place("grouped_allreduce_", tensor, compression)
                                       : out_of_place("grouped_allreduce", tensor, compression));
  return state;
}

struct Group {
  at::ScalarType type;
  hvd::DataType data_type;
  std::vector<hvd::Buffer> buffers;
  at::Tensor sample;  // one of them
  std::vector<std::int64_t> shapes = {};

  // The first one has the name itself, so that it meets whatever else a rank calls by that name.
  hvd::OperationOptions options(const hvd::OperationOptions& all, bool is_first) const {
    const std::string part = at::toString(type);
    hvd::OperationOptions own =
        placed(is_first ? all : part_of(all, sample.is_cuda() ? part + ".cuda" : part), sample);
    own.shape = shapes;
    return own;
  }
};

// Those of one dtype (and device) are one operation; in the order of their first tensor.
std::vector<Group> groups_of(const std::vector<TensorPart>& parts) {
  std::vector<Group> groups;
  for (const TensorPart& part : parts) {
    const at::ScalarType type = part.wire.scalar_type();
    auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.type == type && group.sample.device() == part.wire.device();
    });
    if (found == groups.end())
      found = groups.insert(groups.end(),
                            {type, check_tensor("grouped_allreduce", part.wire), {}, part.wire});
    if (!found->buffers.empty()) found->shapes.push_back(hvd::kNextShape);
    found->shapes.insert(found->shapes.end(), part.wire.sizes().begin(), part.wire.sizes().end());
    found->buffers.push_back({part.input.data_ptr(), part.wire.data_ptr(), count_of(part)});
  }
  return groups;
}

hvd::TensorHandle reduce_groups_async(std::shared_ptr<State> state, hvd::ReduceOp op,
                                      const hvd::ScaleFactors& scale,
                                      const hvd::OperationOptions& options) {
  const std::vector<Group> groups = groups_of(state->parts);
  for (const Group& group : groups)
    state->handles.push_back(
        hvd::grouped_allreduce_async(group.buffers, group.data_type, op, scale,
                                     group.options(options, &group == &groups.front())));
  return hvd::TensorHandle(std::move(state));
}

std::vector<at::Tensor> reduce_groups(const std::shared_ptr<State>& state, hvd::ReduceOp op,
                                      const hvd::ScaleFactors& scale,
                                      const hvd::OperationOptions& options) {
  const std::vector<Group> groups = groups_of(state->parts);
  for (const Group& group : groups)
    hvd::grouped_allreduce(group.buffers, group.data_type, op, scale,
                           group.options(options, &group == &groups.front()));
  return state->take();
}

TensorPart copied(const char* what, const at::Tensor& tensor) {
  check_tensor(what, tensor);
  const at::NoGradGuard no_grad;
  TensorPart part;
  part.wire = tensor.detach().clone(at::MemoryFormat::Contiguous);
  part.input = part.wire;
  part.type = tensor.scalar_type();
  part.stream = current_stream(tensor);
  return part;
}

hvd::TensorHandle send_async(const char* what, TensorPart part, int root,
                             const hvd::OperationOptions& options) {
  auto state = std::make_shared<State>();
  state->parts.push_back(std::move(part));
  const TensorPart& held = state->parts.front();
  state->handles.push_back(hvd::broadcast_async(held.wire.data_ptr(), count_of(held),
                                                check_tensor(what, held.wire), root,
                                                with_shape(options, held.wire)));
  return hvd::TensorHandle(std::move(state));
}

void send(const char* what, const TensorPart& part, int root,
          const hvd::OperationOptions& options) {
  hvd::broadcast(part.wire.data_ptr(), count_of(part), check_tensor(what, part.wire), root,
                 with_shape(options, part.wire));
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

using hvdrun::State;
using hvdrun::TensorPart;

at::Tensor allreduce(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                     Compression compression, const OperationOptions& options) {
  const TensorPart part = hvdrun::out_of_place("allreduce", tensor, compression);
  hvdrun::reduce("allreduce", part, op, scale, options);
  at::Tensor output = part.wire.to(part.type);
  if (hvdrun::needs_gradient({tensor}))
    hvdrun::set_backward("allreduce", tensor, output, [=](const at::Tensor& gradient) {
      hvdrun::check_linear("allreduce", op);
      return allreduce(gradient, op, scale, compression, hvdrun::backward_options(options));
    });
  return output;
}

void allreduce_(at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale, Compression compression,
                const OperationOptions& options) {
  TensorPart part = hvdrun::in_place("allreduce_", tensor, compression);
  hvdrun::reduce("allreduce_", part, op, scale, options);
  State finished;
  finished.parts.push_back(std::move(part));
  finished.take();
}

TensorHandle allreduce_async(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                             Compression compression, const OperationOptions& options) {
  return hvdrun::reduce_async("allreduce_async",
                              hvdrun::out_of_place("allreduce_async", tensor, compression), op,
                              scale, options);
}

TensorHandle allreduce_async_(at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                              Compression compression, const OperationOptions& options) {
  return hvdrun::reduce_async("allreduce_async_",
                              hvdrun::in_place("allreduce_async_", tensor, compression), op, scale,
                              options);
}

TensorHandle grouped_allreduce_async(const std::vector<at::Tensor>& tensors, ReduceOp op,
                                     const ScaleFactors& scale, Compression compression,
                                     const OperationOptions& options) {
  return hvdrun::reduce_groups_async(hvdrun::group_state(tensors, compression, false), op, scale,
                                     options);
}

TensorHandle grouped_allreduce_async_(const std::vector<at::Tensor>& tensors, ReduceOp op,
                                      const ScaleFactors& scale, Compression compression,
                                      const OperationOptions& options) {
  return hvdrun::reduce_groups_async(hvdrun::group_state(tensors, compression, true), op, scale,
                                     options);
}

std::vector<at::Tensor> grouped_allreduce(const std::vector<at::Tensor>& tensors, ReduceOp op,
                                          const ScaleFactors& scale, Compression compression,
                                          const OperationOptions& options) {
  std::vector<at::Tensor> outputs =
      hvdrun::reduce_groups(hvdrun::group_state(tensors, compression, false), op, scale, options);
  if (hvdrun::needs_gradient(tensors))
    hvdrun::set_grouped_backward(tensors, outputs, op, scale, compression, options);
  return outputs;
}

void grouped_allreduce_(const std::vector<at::Tensor>& tensors, ReduceOp op,
                        const ScaleFactors& scale, Compression compression,
                        const OperationOptions& options) {
  hvdrun::reduce_groups(hvdrun::group_state(tensors, compression, true), op, scale, options);
}

at::Tensor broadcast(const at::Tensor& tensor, int root, const OperationOptions& options) {
  const TensorPart part = hvdrun::copied("broadcast", tensor);
  hvdrun::send("broadcast", part, root, options);
  at::Tensor output = part.wire;
  if (hvdrun::needs_gradient({tensor}))
    hvdrun::set_backward("broadcast", tensor, output, [=](const at::Tensor& gradient) {
      // The others' parts have no place in any result.
      const at::Tensor sum = allreduce(gradient, ReduceOp::sum, {}, Compression::none,
                                       hvdrun::backward_options(options));
      return rank() == root ? sum : at::zeros_like(sum);
    });
  return output;
}

TensorHandle broadcast_async(const at::Tensor& tensor, int root, const OperationOptions& options) {
  return hvdrun::send_async("broadcast_async", hvdrun::copied("broadcast_async", tensor), root,
                            options);
}

void broadcast_(at::Tensor& tensor, int root, const OperationOptions& options) {
  TensorPart part = hvdrun::in_place("broadcast_", tensor, Compression::none);
  hvdrun::send("broadcast_", part, root, options);
  State finished;
  finished.parts.push_back(std::move(part));
  finished.take();
}

TensorHandle broadcast_async_(at::Tensor& tensor, int root, const OperationOptions& options) {
  return hvdrun::send_async("broadcast_async_",
                            hvdrun::in_place("broadcast_async_", tensor, Compression::none), root,
                            options);
}

std::vector<at::Tensor> distributed_grad(const std::vector<at::Tensor>& outputs,
                                         const std::vector<at::Tensor>& inputs, ReduceOp op,
                                         Compression compression, const OperationOptions& options) {
  std::vector<at::Tensor> gradients =
      torch::autograd::grad(outputs, inputs, /*grad_outputs=*/{}, /*retain_graph=*/c10::nullopt,
                            /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(inputs[i]);
  return grouped_allreduce(gradients, op, {}, compression, options);
}

}  // namespace hvd
