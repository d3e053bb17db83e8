// The five changes of the README make the program that they promise.
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/integration/installed_tree.h"

namespace hvdrun::test {
namespace {

// The program after the changes: the lines of the README's diff that are not taken away.
std::string changed_program() {
  std::ifstream readme(source_path("README.md"));
  std::string line;
  while (std::getline(readme, line) && line != "```diff") {
  }
  std::string code;
  while (std::getline(readme, line) && line != "```")
    if (line[0] != '-') code += line.substr(1) + '\n';
  return code;
}

TEST_CASE("the README's five changes compile, train and agree on every rank", "[readme]") {
  const std::string code = changed_program();
  REQUIRE(code.find("hvd::DistributedOptimizer") != std::string::npos);
  // What the README leaves to the reader: a model and its data.
  const std::string source = R"(
#include <hvd/torch.h>
#include <iostream>
#include <vector>
struct NetImpl : torch::nn::Module {
  NetImpl() : layer(register_module("layer", torch::nn::Linear(4, 3))) {}
  torch::Tensor forward(torch::Tensor x) { return torch::log_softmax(layer->forward(x), 1); }
  torch::nn::Linear layer;
};
TORCH_MODULE(Net);
struct Batch {
  torch::Tensor data, target;
};
int main() {
  torch::manual_seed(7);
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i)
    batches.push_back({torch::randn({8, 4}), torch::randint(0, 3, {8}, torch::kLong)});
  const int epochs = 2;
)" + code + R"(
  std::cout << "weight " << model->layer->weight.sum().item<double>() << '\n';
  hvd::shutdown();
}
)";
  const InstalledTree tree;
  const std::string program = tree.compile("readme", source, "hvd_torch");
  const RunResult job = tree.hvdrun({"-np", "2", program});
  INFO(job.out << job.err);
  CHECK(job.exit_code == 0);
  CHECK(job.out.find("[0]<stdout>:epoch 1\n") != std::string::npos);
  CHECK(job.out.find("[1]<stdout>:epoch") == std::string::npos);
  std::vector<std::string> weights;
  std::istringstream lines(job.out);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("weight ");
    if (at != std::string::npos) weights.push_back(line.substr(at));
  }
  REQUIRE(weights.size() == 2);
  CHECK(weights[0] == weights[1]);
}

}  // namespace
}  // namespace hvdrun::test
