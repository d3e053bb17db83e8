// Collectives on tensors: one way for the blocking and the asynchronous ones. What travels is
// contiguous memory of the wire's dtype; the result is brought back into a tensor of the program's
// when somebody asks for it.
#include "worker/hvd/torch/tensor_handle.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "worker/hvd/torch/cuda_stream.h"
#include "worker/hvd/torch/row_steps.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvd {

TensorHandle::TensorHandle(std::shared_ptr<State> state) : state_(std::move(state)) {}

TensorHandle::State::~State() {
  // The memory that the operation reads and writes goes with us.
  bool failed = false;
  std::exception_ptr unasked;
  end_steps(unasked);
  for (const Handle& handle : handles) {
    try {
      hvd::synchronize(handle);
    } catch (const std::exception&) {
      failed = true;  // nobody asks for the result any more
    }
  }
  if (failed) keep();
}

// Tells libhvd that somebody waits; the first step's handle may be gone, as the second takes it.
bool TensorHandle::State::wait_for_steps(std::chrono::milliseconds limit) {
  if (!steps || steps->is_last()) return true;
  const auto end = std::chrono::steady_clock::now() + limit;
  try {
    if (!hvd::wait(first_step, limit)) return false;
  } catch (const Error&) {
    // The step that takes it tells.
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return steps->wait_for(std::max(left, std::chrono::milliseconds(0)));
}

void TensorHandle::State::end_steps(std::exception_ptr& error) {
  if (!steps || std::exchange(all_steps_, true)) return;
  // Every step ends by its own deadline.
  while (!wait_for_steps(std::chrono::hours(1))) continue;
  const hvdrun::RowSteps::Last last = steps->wait();
  handles = last.handles;
  error = last.error;
}

// After an error the GPU may still use it.
void TensorHandle::State::keep() {
  for (const hvdrun::TensorPart& part : parts) {
    hvdrun::keep_for_gpu(part.input);
    if (part.wire.defined()) hvdrun::keep_for_gpu(part.wire);
  }
  if (!steps) return;
  for (const auto* tensors : {&steps->inputs, &steps->outputs})
    for (const at::Tensor& tensor : *tensors)
      if (tensor.defined()) hvdrun::keep_for_gpu(tensor);
}

std::vector<at::Tensor> TensorHandle::State::take() {
  if (std::exchange(taken, true))
    throw Error(ErrorCode::invalid_argument, "synchronize: this operation's result was taken");
  std::exception_ptr first;
  end_steps(first);
  for (const Handle& handle : std::exchange(handles, {})) {
    try {
      hvd::synchronize(handle);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) {
    keep();
    std::rethrow_exception(first);
  }
  const at::NoGradGuard no_grad;
  if (steps) {
    hvdrun::continue_after(parts.front().stream);
    return steps->finish ? steps->finish(steps->outputs) : steps->outputs;
  }
  std::vector<at::Tensor> results;
  results.reserve(parts.size());
  for (hvdrun::TensorPart& part : parts) {
    hvdrun::continue_after(part.stream);
    if (!part.target.defined()) {
      results.push_back(part.wire.to(part.type));
      continue;
    }
    if (!part.target.is_same(part.wire)) part.target.copy_(part.wire);
    hvdrun::mark_changed(part.target);
    results.push_back(part.target);
  }
  return results;
}

bool poll(const TensorHandle& handle) {
  TensorHandle::State& state = handle.state();
  if (state.steps && !state.taken) {
    if (!state.steps->is_last()) return false;
    const std::vector<Handle> last = state.steps->wait().handles;
    return std::all_of(last.begin(), last.end(), [](const Handle& one) { return poll(one); });
  }
  const auto& handles = state.handles;
  return std::all_of(handles.begin(), handles.end(), [](const Handle& one) { return poll(one); });
}

bool wait(const TensorHandle& handle, std::chrono::milliseconds limit) {
  // A limit that is meant as none must not overflow the clock.
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const auto end = std::chrono::steady_clock::now() + std::min(limit, kLongest);
  TensorHandle::State& state = handle.state();
  std::vector<Handle> handles = state.handles;
  if (state.steps && !state.taken) {
    if (!state.wait_for_steps(std::min(limit, kLongest))) return false;
    handles = state.steps->wait().handles;
  }
  for (const Handle& one : handles) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (!wait(one, std::max(left, std::chrono::milliseconds(0)))) return false;
  }
  return true;
}

at::Tensor synchronize(const TensorHandle& handle) {
  const std::size_t tensors = handle.state().parts.size();
  if (tensors != 1)
    throw Error(ErrorCode::invalid_argument, "synchronize: an operation on " +
                                                 std::to_string(tensors) +
                                                 " tensors; synchronize_all() gives them");
  return handle.state().take().front();
}

std::vector<at::Tensor> synchronize_all(const TensorHandle& handle) {
  return handle.state().take();
}

}  // namespace hvd
