// The needs of a tensor collective from its submission to its result.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Stream.h>
#include <hvd/tensor_handle.h>

namespace hvdrun {

class RowSteps;

struct TensorPart {
  at::Tensor input;   // held while it is read; may be the wire
  at::Tensor wire;    // the output: contiguous, of the dtype that travels
  at::Tensor target;  // in place: where the result goes, the wire itself perhaps; else undefined
  at::ScalarType type = at::kFloat;        // of the result
  std::optional<c10::Stream> stream = {};  // of a GPU, that it was submitted on
};

}  // namespace hvdrun

namespace hvd {

class TensorHandle::State {
 public:
  State() = default;
  ~State();
  void keep();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // The results, in the order of the parts; throws what the operations have thrown.
  std::vector<at::Tensor> take();

  std::vector<hvdrun::TensorPart> parts;
  std::vector<Handle> handles;  // not yet synchronized
  bool taken = false;

  // Operations on rows: their handles come with the last step.
  std::shared_ptr<hvdrun::RowSteps> steps;
  Handle first_step;
  // Until the last step has been submitted, at most so long; its error is thrown by take().
  bool wait_for_steps(std::chrono::milliseconds limit);

 private:
  void end_steps(std::exception_ptr& error);
  bool all_steps_ = false;
};

}  // namespace hvd
