// The programs of the documents compile and do what they promise.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/installed_tree.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

// The lines of the first block of a page that begins so.
std::vector<std::string> block_of(const std::string& page, const std::string& begin) {
  std::ifstream file(source_path(page));
  std::string line;
  while (std::getline(file, line) && line != begin) {
  }
  std::vector<std::string> lines;
  while (std::getline(file, line) && line != "```") lines.push_back(line);
  return lines;
}

// The program after the changes: the lines of the README's diff that are not taken away.
std::string changed_program() {
  std::string code;
  for (const std::string& line : block_of("README.md", "```diff"))
    if (line[0] != '-') code += line.substr(1) + '\n';
  return code;
}

std::string tutorial_program() {
  std::string code;
  for (const std::string& line : block_of("docs/libtorch.md", "```cpp")) code += line + '\n';
  return code;
}

TEST_CASE("the tutorial's program trains on any number of ranks", "[readme]") {
  if (!takes_turn(3)) return;
  const InstalledTree tree;
  const std::string program = tree.compile("tutorial", tutorial_program(), "hvd_torch");
  const TempFolder folder;
  for (const char* const ranks : {"1", "2"}) {
    const RunResult job = tree.hvdrun({"-np", ranks, "--chdir", folder.path(), program});
    INFO(job.out << job.err);
    CHECK(job.exit_code == 0);
    double first = 0;
    double last = 0;
    std::istringstream lines(job.out);
    for (std::string line; std::getline(lines, line);) {
      const auto at = line.find(" loss ");
      REQUIRE(at != std::string::npos);
      CHECK(line.find("[0]<stdout>:epoch ") == 0);
      last = std::stod(line.substr(at + 6));
      if (first == 0) first = last;
    }
    CHECK(last > 0);
    CHECK(last < first / 10);
    CHECK(std::ifstream(folder.path() + "/model.pt").peek() != EOF);
  }
}

TEST_CASE("the README's five changes compile, train and agree on every rank", "[readme]") {
  if (!takes_turn(3)) return;
  const std::string code = changed_program();
  REQUIRE(code.find("hvd::DistributedOptimizer") != std::string::npos);
  // The parts that the README leaves to the reader: a model and its data.
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
