#include "worker/hvd/torch/optimizer_state.h"

#include <sstream>

namespace hvdrun {
namespace {

at::Device device_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params())
      if (parameter.defined()) return parameter.device();
  return at::kCPU;
}

// LibTorch's LBFGS keeps room for numbers that each step computes anew, and cannot save what of it
// was never used.
void fill_scratch_of_lbfgs(torch::optim::Optimizer& optimizer) {
  for (auto& [key, state] : optimizer.state()) {
    auto* lbfgs = dynamic_cast<torch::optim::LBFGSParamState*>(state.get());
    if (lbfgs == nullptr || !lbfgs->al()) continue;
    for (at::Tensor& number : *lbfgs->al())
      if (!number.defined()) number = at::zeros({});
  }
}

// load() of LibTorch 1.13 takes over the state of each parameter and leaves the options alone.
std::string options_key(std::size_t group) { return "options" + std::to_string(group); }

void write_options(torch::optim::Optimizer& optimizer, torch::serialize::OutputArchive& archive) {
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options;
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(options_key(i), options);
  }
}

void read_options(torch::optim::Optimizer& optimizer, torch::serialize::InputArchive& archive) {
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(options_key(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

std::string bytes_of(torch::serialize::OutputArchive& archive) {
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

}  // namespace

std::string optimizer_state(torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive state;
  fill_scratch_of_lbfgs(optimizer);
  optimizer.save(state);
  archive.write("state", state);
  write_options(optimizer, archive);
  return bytes_of(archive);
}

void set_optimizer_state(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  torch::serialize::InputArchive archive;
  std::istringstream stream(bytes);
  archive.load_from(stream, device_of(optimizer));
  torch::serialize::InputArchive state;
  archive.read("state", state);
  // load() leaves alone what it has nothing for, momentum that was not there yet say.
  optimizer.state().clear();
  optimizer.load(state);
  read_options(optimizer, archive);
}

std::string optimizer_options(torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  write_options(optimizer, archive);
  return bytes_of(archive);
}

void set_optimizer_options(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  torch::serialize::InputArchive archive;
  std::istringstream stream(bytes);
  archive.load_from(stream);
  read_options(optimizer, archive);
}

}  // namespace hvdrun
