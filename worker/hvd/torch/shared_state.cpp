// State that ranks must have in common: parameters, the optimizer's state, averages of metrics.
#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/torch.h>

#include "worker/hvd/torch/optimizer_state.h"
#include "worker/hvd/torch/row_shapes.h"
#include "worker/hvd/torch/same_layout.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// The error that `body` throws, in a line; empty: nothing. LibTorch's errors go on with a stack.
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string line = text.substr(0, text.find('\n'));
    return line.empty() ? "an error without words" : line;
  }
}

// Where the names differ, or a tensor of one rank can't be sent, the others would wait for it.
void confirm_same_names(const NamedTensors& tensors, const hvd::ProcessSet& set) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const std::string wrong = failure_of([&t = tensor] { check_tensor("broadcast", t); });
    names.push_back("'" + name + "'" + (wrong.empty() ? "" : " (" + wrong + ")"));
  }
  std::sort(names.begin(), names.end());  // they match in any order
  confirm_same_lines("broadcast_parameters", names, set);
}

void broadcast_all(NamedTensors& tensors, int root, const hvd::ProcessSet& set) {
  confirm_same_names(tensors, set);
  std::vector<hvd::TensorHandle> handles;
  std::exception_ptr first;
  for (auto& [name, tensor] : tensors) {
    try {
      handles.push_back(
          hvd::broadcast_async_(tensor, root, {"broadcast_parameters." + name, set, {}}));
    } catch (...) {  // the other ranks wait for those behind it
      if (!first) first = std::current_exception();
    }
  }
  for (const hvd::TensorHandle& handle : handles) {
    try {
      hvd::synchronize(handle);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// The failure of any rank is an error of every rank.
void agree_on(const std::string& failure, const hvd::OperationOptions& options) {
  const std::vector<std::string> all = hvd::allgather_object(failure, options);
  for (std::size_t place = 0; place < all.size(); ++place)
    if (!all[place].empty())
      throw hvd::Error(hvd::ErrorCode::mismatch,
                       "broadcast_optimizer_state: rank " +
                           std::to_string(hvd::process_set_ranks(options.process_set)[place]) +
                           " cannot take the state over: " + all[place]);
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

void broadcast_parameters(torch::nn::Module& module, int root, const ProcessSet& process_set) {
  hvdrun::NamedTensors all;
  for (const auto& parameter : module.named_parameters())
    all.emplace_back(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) all.emplace_back(buffer.key(), buffer.value());
  hvdrun::broadcast_all(all, root, process_set);
}

void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& variables, int root,
                          const ProcessSet& process_set) {
  hvdrun::NamedTensors all;
  for (const auto& variable : variables) all.emplace_back(variable.key(), variable.value());
  hvdrun::broadcast_all(all, root, process_set);
}

void broadcast_parameters(const std::vector<at::Tensor>& variables, int root,
                          const ProcessSet& process_set) {
  hvdrun::NamedTensors all;
  for (std::size_t i = 0; i < variables.size(); ++i)
    all.emplace_back(std::to_string(i), variables[i]);
  hvdrun::broadcast_all(all, root, process_set);
}

void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root,
                               const ProcessSet& process_set) {
  const OperationOptions options{{}, process_set, {}};
  std::string bytes;
  std::string failure;
  if (rank() == root)
    failure = hvdrun::failure_of([&] { bytes = hvdrun::optimizer_state(optimizer); });
  // Nothing saved has no bytes; then they are the reason.
  bytes.insert(0, 1, failure.empty() ? '+' : '-');
  bytes = broadcast_object(bytes + failure, root, options);
  const bool saved = bytes.front() == '+';
  bytes.erase(0, 1);
  if (!saved)
    throw Error(ErrorCode::unavailable, "broadcast_optimizer_state: rank " + std::to_string(root) +
                                            " cannot save its state: " + bytes);
  if (rank() != root)
    failure = hvdrun::failure_of([&] { hvdrun::set_optimizer_state(optimizer, bytes); });
  hvdrun::agree_on(failure, options);
}

double metric_average(double value, const ProcessSet& process_set) {
  double mean = 0;
  allreduce(&value, &mean, 1, ReduceOp::average, {}, {{}, process_set, {}});
  return mean;
}

std::map<std::string, double> metric_average(const std::map<std::string, double>& values,
                                             const ProcessSet& process_set) {
  const OperationOptions options{{}, process_set, {}};
  std::string names;
  std::vector<double> numbers;
  numbers.reserve(values.size());
  for (const auto& [name, value] : values) {
    names += (names.empty() ? "" : ", ") + name;
    numbers.push_back(value);
  }
  if (names.empty()) names = "(no metrics)";
  const std::vector<std::string> all = allgather_object(names, options);
  // Nothing comes from ranks that have joined.
  const std::string* first = nullptr;
  for (const std::string& one : all) {
    if (one.empty()) continue;
    if (first == nullptr) first = &one;
    if (one != *first) throw hvdrun::mismatch_of("metric_average", all, options);
  }
  allreduce(numbers.data(), numbers.data(), numbers.size(), ReduceOp::average, {}, options);
  std::map<std::string, double> means;
  std::size_t at = 0;
  for (const auto& [name, value] : values) means[name] = numbers[at++];
  return means;
}

}  // namespace hvd
