#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include <hvd/torch.h>

#include "worker/hvd/torch/local_gradients.h"
#include "worker/hvd/torch/optimizer_state.h"
#include "worker/hvd/torch/row_shapes.h"
#include "worker/hvd/torch/same_layout.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

std::vector<at::Tensor> tensors_of(const torch::nn::Module* module) {
  std::vector<at::Tensor> tensors;
  if (module == nullptr) return tensors;
  for (const at::Tensor& parameter : module->parameters()) tensors.push_back(parameter);
  for (const at::Tensor& buffer : module->buffers()) tensors.push_back(buffer);
  return tensors;
}

// The buffers of SyncBatchNorm layers, which keep something of all ranks' inputs.
std::vector<at::Tensor> shared_buffers(const torch::nn::Module* module) {
  std::vector<at::Tensor> buffers;
  if (module == nullptr) return buffers;
  if (module->as<hvd::SyncBatchNormImpl>() != nullptr) buffers = module->buffers(false);
  for (const auto& part : module->children()) {
    const std::vector<at::Tensor> its = shared_buffers(part.get());
    buffers.insert(buffers.end(), its.begin(), its.end());
  }
  return buffers;
}

// A state's names and forms of tensors, a line each. `strides`: where their bytes are sent as they
// lie.
std::vector<std::string> forms_of(const torch::nn::Module& module, bool strides) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    std::ostringstream line;
    line << name << ' ' << tensor.dtype() << ' ' << tensor.sizes();
    for (std::int64_t i = 0; strides && i < tensor.dim(); ++i)
      if (tensor.size(i) != 1) line << ' ' << tensor.stride(i);
    lines.push_back(line.str());
  };
  for (const auto& one : module.named_parameters()) add(one.key(), one.value());
  for (const auto& one : module.named_buffers()) add(one.key(), one.value());
  return lines;
}

}  // namespace
}  // namespace hvdrun

namespace hvd::elastic {

class TorchState::Copy {
 public:
  std::vector<at::Tensor> tensors;
  // Pairs of copy and place of what is under way, by handle. No place: it is there already.
  std::vector<std::pair<at::Tensor, at::Tensor>> pieces;
  std::string optimizer;
  std::string values;
};

TorchState::TorchState(torch::nn::Module* model, torch::optim::Optimizer* optimizer)
    : model_(model), optimizer_(optimizer), copy_(std::make_unique<Copy>()) {
  TorchState::save();
}

TorchState::~TorchState() = default;

TorchState& TorchState::add_bytes(const std::string& name, void* value, std::size_t bytes) {
  if (!numbers_.emplace(name, std::pair(value, bytes)).second)
    hvdrun::invalid_tensor("TorchState: there is a '" + name + "' already");
  copy_->values = values();
  return *this;
}

TorchState& TorchState::add(ElasticSampler& sampler) {
  samplers_.push_back(&sampler);
  copy_->values = values();
  return *this;
}

// Numbers in the order of their names, then the samplers' in that of their coming.
std::string TorchState::values() const {
  std::string bytes;
  for (const auto& [name, number] : numbers_)
    bytes.append(static_cast<const char*>(number.first), number.second);
  for (const ElasticSampler* const sampler : samplers_) {
    const std::uint64_t state[] = {sampler->epoch(), sampler->processed()};
    bytes.append(reinterpret_cast<const char*>(state), sizeof state);
  }
  return bytes;
}

void TorchState::set_values(const std::string& bytes) {
  std::size_t at = 0;
  const auto take = [&](void* to, std::size_t count) {
    bytes.copy(static_cast<char*>(to), count, at);
    at += count;
  };
  for (const auto& [name, number] : numbers_) take(number.first, number.second);
  for (ElasticSampler* const sampler : samplers_) {
    std::uint64_t state[2];
    take(state, sizeof state);
    sampler->load(state[0], state[1]);
  }
}

void TorchState::save() {
  const at::NoGradGuard no_grad;
  Copy copy;
  for (const at::Tensor& tensor : hvdrun::tensors_of(model_))
    copy.tensors.push_back(tensor.detach().clone());
  if (optimizer_ != nullptr) copy.optimizer = hvdrun::optimizer_state(*optimizer_);
  copy.values = values();
  *copy_ = std::move(copy);
}

void TorchState::restore() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors = hvdrun::tensors_of(model_);
  if (tensors.size() != copy_->tensors.size())
    hvdrun::invalid_tensor("TorchState: the model has other parameters or buffers than before");
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(copy_->tensors[i]);
  drop_gradients();
  if (optimizer_ != nullptr) hvdrun::set_optimizer_state(*optimizer_, copy_->optimizer);
  set_values(copy_->values);
}

// Those of a step that failed would be added to, by a loop that zeroes them last.
void TorchState::drop_gradients() {
  for (const at::Tensor& tensor : hvdrun::tensors_of(model_)) tensor.mutable_grad().reset();
  if (optimizer_ == nullptr) return;
  for (const auto& group : optimizer_->param_groups()) hvdrun::zero_gradients(group.params(), true);
}

std::string TorchState::layout() const { return layout_with(false); }

std::string TorchState::layout_with(bool strides) const {
  std::string text = std::to_string(samplers_.size()) + " samplers";
  for (const auto& [name, number] : numbers_)
    text += ", " + name + " of " + std::to_string(number.second) + " bytes";
  if (model_ == nullptr) return text;
  std::int64_t elements = 0;
  const std::vector<at::Tensor> tensors = hvdrun::tensors_of(model_);
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  std::ostringstream fingerprint;
  fingerprint << std::hex
              << static_cast<std::uint64_t>(hvdrun::hash_of(hvdrun::forms_of(*model_, strides)));
  return text + ", " + std::to_string(tensors.size()) + " tensors of " + std::to_string(elements) +
         " elements (fingerprint " + fingerprint.str() + ")";
}

void TorchState::sync() {
  require_same_layout("TorchState::sync", layout_with(false));
  if (is_new()) drop_gradients();
  if (model_ != nullptr) broadcast_parameters(*model_, source(), group());
  if (optimizer_ != nullptr) broadcast_optimizer_state(*optimizer_, source(), group());
  set_values(broadcast_object(values(), source(), {"hvd.elastic.values", group(), {}}));
  save();
}

std::vector<Handle> TorchState::begin_sync() {
  const at::NoGradGuard no_grad;
  require_same_layout("TorchState::sync", layout_with(true));
  if (is_new()) drop_gradients();
  const bool sends = rank() == source();
  if (sends && !copy_is_current()) save();
  set_values(broadcast_object(values(), source(), {"hvd.elastic.values", group(), {}}));
  if (!sends) copy_->values = values();
  if (optimizer_ != nullptr) {
    const std::string options = broadcast_object(hvdrun::optimizer_options(*optimizer_), source(),
                                                 {"hvd.elastic.options", group(), {}});
    if (!sends) hvdrun::set_optimizer_options(*optimizer_, options);
  }
  std::vector<Handle> handles;
  for (at::Tensor& buffer : hvdrun::shared_buffers(model_))
    broadcast_(buffer, source(), {"hvd.elastic.buffer", group(), {}});
  auto length = static_cast<std::int64_t>(copy_->optimizer.size());
  broadcast(&length, 1, source(), {"hvd.elastic.length", group(), {}});
  copy_->optimizer.resize(static_cast<std::size_t>(length));
  const auto send = [&](void* data, std::size_t bytes) {
    if (bytes == 0) return;
    handles.push_back(
        broadcast_async(data, bytes, DataType::uint8, source(),
                        {"hvd.elastic.state." + std::to_string(handles.size()), group(), {}}));
  };
  copy_->pieces.clear();
  const std::vector<at::Tensor> places = hvdrun::tensors_of(model_);
  // The model may be another one than when this was made.
  const bool fits =
      std::equal(places.begin(), places.end(), copy_->tensors.begin(), copy_->tensors.end(),
                 [](const at::Tensor& a, const at::Tensor& b) { return a.nbytes() == b.nbytes(); });
  if (!sends && !fits) save();
  const std::vector<at::Tensor> shared = hvdrun::shared_buffers(model_);
  // Copies are dense: of the same layout, they have the same bytes.
  for (std::size_t i = 0; i < places.size(); ++i) {
    const at::Tensor& copy = copy_->tensors[i];
    if (copy.nbytes() == 0) continue;
    const bool is_shared = std::any_of(shared.begin(), shared.end(), [&](const at::Tensor& one) {
      return one.is_same(places[i]);
    });
    copy_->pieces.emplace_back(copy, is_shared ? at::Tensor() : places[i]);
    send(copy.data_ptr(), copy.nbytes());
  }
  send(copy_->optimizer.data(), copy_->optimizer.size());
  return handles;
}

void TorchState::end_piece(std::size_t number) {
  if (number >= copy_->pieces.size()) return;
  const at::NoGradGuard no_grad;
  const auto& [copy, place] = copy_->pieces[number];
  if (place.defined()) place.copy_(copy);
}

void TorchState::end_sync() {
  const at::NoGradGuard no_grad;
  copy_->pieces.clear();
  if (optimizer_ == nullptr) return;
  // Those of this step are there already.
  const std::string options = hvdrun::optimizer_options(*optimizer_);
  hvdrun::set_optimizer_state(*optimizer_, copy_->optimizer);
  hvdrun::set_optimizer_options(*optimizer_, options);
}

void TorchState::reset() {
  for (ElasticSampler* const sampler : samplers_) sampler->reset();
}

}  // namespace hvd::elastic
