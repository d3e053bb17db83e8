// A training loop of one's own, without an optimizer, in the way of a gradient tape:
// g++ -std=c++17 tape.cpp $(pkg-config --cflags --libs hvd_torch) -o tape && hvdrun -np 4 ./tape
//
// A bag of 64 made-up words, counted from the mean, is liked when it has more of the first ten than
// of the next ten. The same 256 bags make up each step, whatever the number of ranks; so do the
// losses.
#include <cstdio>
#include <vector>

#include <hvd/torch.h>

namespace {

constexpr std::int64_t kBags = 256;  // of all ranks
constexpr std::int64_t kWords = 64;
constexpr int kSteps = 120;
constexpr double kRate = 0.1;

struct Net {
  torch::Tensor vectors = torch::randn({kWords, 16}) * 0.2;
  torch::Tensor hidden = torch::randn({16, 8}) * 0.5;
  torch::Tensor output = torch::randn({8, 1}) * 0.5;

  std::vector<torch::Tensor*> variables() { return {&vectors, &hidden, &output}; }
  torch::Tensor operator()(const torch::Tensor& bags) const {
    return torch::relu(bags.matmul(vectors).matmul(hidden)).matmul(output).squeeze(1);
  }
};

torch::Tensor liked(const torch::Tensor& bags) {
  return bags.slice(1, 0, 10).sum(1).gt(bags.slice(1, 10, 20).sum(1)).to(torch::kFloat);
}

}  // namespace

int main() {
  hvd::init();
  torch::set_num_threads(1);
  torch::manual_seed(7);
  Net net;
  for (torch::Tensor* const variable : net.variables()) variable->requires_grad_();
  const std::int64_t begin = kBags * hvd::rank() / hvd::size();
  const std::int64_t end = kBags * (hvd::rank() + 1) / hvd::size();
  for (int step = 0; step < kSteps; ++step) {
    // All ranks draw the same bags and take their parts of them.
    torch::manual_seed(1000 + static_cast<std::uint64_t>(step));
    const torch::Tensor bags = torch::randint(0, 3, {kBags, kWords}).to(torch::kFloat) - 1;
    const torch::Tensor mine = bags.slice(0, begin, end);
    const torch::Tensor loss = torch::binary_cross_entropy_with_logits(net(mine), liked(mine));

    std::vector<torch::Tensor> inputs;
    for (const torch::Tensor* const variable : net.variables()) inputs.push_back(*variable);
    const std::vector<torch::Tensor> gradients = hvd::distributed_grad({loss}, inputs);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].sub_(kRate * gradients[i]);
      // Ranks that began elsewhere would now go on from the same place. After the first step, when
      // everything that a framework makes late is there.
      if (step == 0)
        for (torch::Tensor& variable : inputs) hvd::broadcast_(variable, 0);
    }
    const double mean = hvd::metric_average(loss.item<double>());
    if (hvd::rank() == 0 && step % 20 == 19) std::printf("step %d  loss %.4f\n", step + 1, mean);
  }
  hvd::shutdown();
}
