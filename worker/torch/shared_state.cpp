// What ranks must have in common besides parameters: the optimizer's state, averages of metrics.
#include <sstream>

#include <hvd/torch.h>

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

}  // namespace
}  // namespace hvdrun

namespace hvd {

void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root) {
  // load() of LibTorch 1.13 takes over the state of each parameter and leaves the options alone.
  const auto key = [](std::size_t group) { return "options" + std::to_string(group); };
  std::string bytes;
  if (rank() == root) {
    torch::serialize::OutputArchive archive;
    torch::serialize::OutputArchive state;
    hvdrun::fill_scratch_of_lbfgs(optimizer);
    optimizer.save(state);
    archive.write("state", state);
    for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
      torch::serialize::OutputArchive options;
      optimizer.param_groups()[i].options().serialize(options);
      archive.write(key(i), options);
    }
    std::ostringstream stream;
    archive.save_to(stream);
    bytes = stream.str();
  }
  bytes = broadcast_object(bytes, root);
  if (rank() == root) return;
  torch::serialize::InputArchive archive;
  std::istringstream stream(bytes);
  // Not to the device that the root's is on.
  archive.load_from(stream, hvdrun::device_of(optimizer));
  torch::serialize::InputArchive state;
  archive.read("state", state);
  optimizer.load(state);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(key(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

double metric_average(double value) {
  double mean = 0;
  allreduce(&value, &mean, 1);
  return mean;
}

std::map<std::string, double> metric_average(const std::map<std::string, double>& values) {
  std::string names;
  std::vector<double> numbers;
  numbers.reserve(values.size());
  for (const auto& [name, value] : values) {
    names += (names.empty() ? "" : ", ") + name;
    numbers.push_back(value);
  }
  const std::vector<std::string> all = allgather_object(names);
  // Nothing comes from ranks that have joined.
  std::size_t first = 0;
  while (first + 1 < all.size() && all[first].empty()) ++first;
  for (std::size_t other = first + 1; other < all.size(); ++other)
    if (!all[other].empty() && all[other] != all[first])
      throw Error(ErrorCode::mismatch, "metric_average: rank " + std::to_string(first) + " has " +
                                           all[first] + ", but rank " + std::to_string(other) +
                                           " has " + all[other]);
  allreduce(numbers.data(), numbers.data(), numbers.size());
  std::map<std::string, double> means;
  std::size_t at = 0;
  for (const auto& [name, value] : values) means[name] = numbers[at++];
  return means;
}

}  // namespace hvd
