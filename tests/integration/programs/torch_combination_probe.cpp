// Options of DistributedOptimizer together with each other, on every rank of a real job: momentum
// and Adam, sums, groups, adaptive sums, compression, several backward passes, process sets, ranks
// with other numbers of steps, clipping and scaled losses. Each rank computes what all ranks do,
// and compares after each of its own steps. The first difference ends the rank with its words and
// exit code 1.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::combination_probe {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Inner = torch::optim::Optimizer;
using MakeInner = std::function<std::unique_ptr<Inner>(const Tensors&)>;

constexpr int kTrainedSteps = 5;

struct TinyNet {
  torch::nn::Sequential stack{nullptr};
  Tensors parameters;
  TinyNet() {
    torch::manual_seed(7);
    stack =
        torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
    stack->to(torch::kDouble);
    parameters = stack->parameters();
  }
  // The loss of what `rank` trains on in this pass of its.
  Tensor loss(int rank, int pass) {
    torch::manual_seed(1000 * rank + pass);
    const auto options = torch::TensorOptions(torch::kDouble);
    const Tensor input = torch::randn({4, 6}, options);
    return torch::mse_loss(stack->forward(input), torch::randn({4, 3}, options));
  }
};

struct Combination {
  std::string name;
  MakeInner make;
  hvd::DistributedOptimizerOptions options;
  double bound = 1e-12;
  bool uneven = false;  // rank r of the job has r mod 3 steps less, and joins
  bool clipped = false;
  bool scaled = false;
};

int steps_of_rank(const Combination& one, int rank) {
  return one.uneven ? kTrainedSteps - rank % 3 : kTrainedSteps;
}

std::unique_ptr<Inner> inner_momentum(const Tensors& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(0.1).momentum(0.9));
}
std::unique_ptr<Inner> inner_adam(const Tensors& parameters) {
  return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
}

// The adaptive sum of two vectors, each a tensor.
Tensor adaptive_pair(const Tensor& a, const Tensor& b) {
  const auto part = [&](const Tensor& one) {
    const double square = (one * one).sum().item<double>();
    return square == 0 ? one : one * (1 - (a * b).sum().item<double>() / (2 * square));
  };
  return part(a) + part(b);
}

// The work of all ranks together, in one process.
class OneProcess {
 public:
  OneProcess(const Combination& one, const std::vector<int>& ranks) : case_(one), ranks_(ranks) {
    optimizer_ = one.make(net_.parameters);
    for (std::size_t i = 0; i < ranks.size(); ++i) own_.push_back(one.make(net_.parameters));
  }

  void step(int number) {
    if (case_.options.op == hvd::ReduceOp::adasum) return take_adaptive_step(number);
    Tensors sums;
    for (const Tensor& parameter : net_.parameters)
      sums.push_back(torch::zeros_like(parameter.detach()));
    for (const int rank : ranks_) {
      if (number >= steps_of_rank(case_, rank)) continue;
      const Tensors gradients = gradients_of(rank, number);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradients[i];
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (case_.options.op == hvd::ReduceOp::average) sums[i] /= static_cast<double>(ranks_.size());
      net_.parameters[i].mutable_grad() = sums[i];
    }
    if (case_.clipped) torch::nn::utils::clip_grad_norm_(net_.parameters, 0.3);
    optimizer_->step();
  }

  double difference(const Tensors& others) const {
    double most = 0;
    for (std::size_t i = 0; i < others.size(); ++i)
      most = std::max(most, (others[i] - net_.parameters[i]).abs().max().item<double>());
    return most;
  }

 private:
  Tensors gradients_of(int rank, int number) {
    const int passes = case_.options.backward_passes_per_step;
    Tensors sums;
    for (int pass = 0; pass < passes; ++pass) {
      const Tensors one =
          torch::autograd::grad({net_.loss(rank, number * passes + pass)}, net_.parameters);
      if (sums.empty())
        sums = one;
      else
        for (std::size_t i = 0; i < one.size(); ++i) sums[i] = sums[i] + one[i];
    }
    if (case_.options.average_aggregated_gradients)
      for (Tensor& sum : sums) sum = sum / passes;
    return sums;
  }

  // Every rank's optimizer has a state of its own.
  void take_adaptive_step(int number) {
    std::vector<Tensors> changes;
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      Tensors before;
      for (const Tensor& parameter : net_.parameters) before.push_back(parameter.detach().clone());
      changes.emplace_back();
      const bool works = number < steps_of_rank(case_, ranks_[place]);
      const Tensors gradients = works ? gradients_of(ranks_[place], number) : Tensors();
      for (std::size_t i = 0; works && i < gradients.size(); ++i)
        net_.parameters[i].mutable_grad() = gradients[i];
      if (works) own_[place]->step();
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < before.size(); ++i) {
        changes.back().push_back(net_.parameters[i].detach() - before[i]);
        net_.parameters[i].copy_(before[i]);
      }
    }
    while (changes.size() > 1) {
      std::vector<Tensors> next;
      for (std::size_t at = 0; at < changes.size(); at += 2) {
        next.push_back(changes[at]);
        for (std::size_t i = 0; at + 1 < changes.size() && i < changes[at].size(); ++i)
          next.back()[i] = adaptive_pair(changes[at][i], changes[at + 1][i]);
      }
      changes = std::move(next);
    }
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < changes[0].size(); ++i) net_.parameters[i].add_(changes[0][i]);
  }

  const Combination& case_;
  const std::vector<int> ranks_;
  TinyNet net_;
  std::unique_ptr<Inner> optimizer_;
  std::vector<std::unique_ptr<Inner>> own_;
};

void check_combination(Combination one, const std::vector<int>& ranks, bool with_groups = false) {
  TinyNet net;
  const std::unique_ptr<Inner> inner = one.make(net.parameters);
  if (with_groups) one.options.groups = {{net.parameters[0], net.parameters[3]}};
  one.options.named_parameters = net.stack->named_parameters();
  hvd::DistributedOptimizer optimizer(*inner, one.options);
  hvd::LossScaler scaler;
  OneProcess reference(one, ranks);
  const int passes = one.options.backward_passes_per_step;
  double most = 0;
  for (int step = 0; step < steps_of_rank(one, hvd::rank()); ++step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < passes; ++pass) {
      const Tensor loss = net.loss(hvd::rank(), step * passes + pass);
      (one.scaled ? scaler.scale(loss) : loss).backward();
    }
    if (one.scaled) scaler.unscale(optimizer);
    if (one.clipped) {
      optimizer.synchronize();
      torch::nn::utils::clip_grad_norm_(net.parameters, 0.3);
    }
    if (one.scaled)
      expect(scaler.step(optimizer), one.name + ": an overflow");
    else
      optimizer.step();
    reference.step(step);
    most = std::max(most, reference.difference(net.parameters));
    expect(most <= one.bound, one.name + ", step " + std::to_string(step) +
                                  ": parameters differ by " + std::to_string(most));
  }
  if (hvd::rank() == 0)
    std::printf("%s: parameters differ by %.2g at most (bound %.2g)\n", one.name.c_str(), most,
                one.bound);
  if (one.uneven) hvd::join();
}

void check_combinations() {
  std::vector<int> everybody;
  std::vector<int> halves[2];
  for (int rank = 0; rank < hvd::size(); ++rank) {
    everybody.push_back(rank);
    halves[rank % 2].push_back(rank);
  }
  using hvd::Compression;
  using hvd::ReduceOp;
  const auto with = [](const std::string& name, const MakeInner& make, double bound,
                       const std::function<void(Combination&)>& set) {
    Combination one{name, make, {}, bound};
    set(one);
    return one;
  };
  const auto plain = [](Combination&) {};
  const auto uneven = [](Combination& one) { one.uneven = true; };
  const auto adaptive = [](Combination& one) { one.options.op = ReduceOp::adasum; };
  check_combination(
      with("sum", inner_momentum, 1e-12, [](Combination& one) { one.options.op = ReduceOp::sum; }),
      everybody);
  check_combination(with("groups of one's own", inner_momentum, 1e-12, plain), everybody, true);
  check_combination(with("groups and passes", inner_adam, 1e-9,
                         [](Combination& one) { one.options.backward_passes_per_step = 3; }),
                    everybody, true);
  check_combination(with("momentum, uneven steps", inner_momentum, 1e-12, uneven), everybody);
  check_combination(with("Adam, uneven steps", inner_adam, 1e-9, uneven), everybody);
  // The wire rounds to 11 bits; a step of Adam has the size of its rate, whatever the gradient.
  check_combination(with("momentum, fp16, uneven steps", inner_momentum, 5e-4,
                         [](Combination& one) {
                           one.uneven = true;
                           one.options.compression = Compression::fp16;
                         }),
                    everybody);
  check_combination(with("everything", inner_momentum, 1e-3,
                         [](Combination& one) {
                           one.clipped = one.scaled = true;
                           one.options.compression = Compression::bf16;
                           one.options.backward_passes_per_step = 2;
                           one.options.average_aggregated_gradients = true;
                           one.options.gradient_predivide_factor = 2;
                         }),
                    everybody);
  check_combination(with("clipped and scaled, passes", inner_adam, 1e-9,
                         [](Combination& one) {
                           one.clipped = one.scaled = true;
                           one.options.backward_passes_per_step = 2;
                           one.options.gradient_predivide_factor = 4;
                         }),
                    everybody);
  check_combination(with("adaptive sum, momentum", inner_momentum, 1e-10, adaptive), everybody);
  check_combination(with("adaptive sum, passes", inner_adam, 1e-8,
                         [](Combination& one) {
                           one.options.op = ReduceOp::adasum;
                           one.options.backward_passes_per_step = 2;
                           one.options.average_aggregated_gradients = true;
                         }),
                    everybody);
  check_combination(with("adaptive sum, fp16", inner_momentum, 1e-3,
                         [](Combination& one) {
                           one.options.op = ReduceOp::adasum;
                           one.options.compression = Compression::fp16;
                         }),
                    everybody);
  check_combination(with("adaptive sum, uneven steps", inner_momentum, 1e-10,
                         [](Combination& one) {
                           one.options.op = ReduceOp::adasum;
                           one.uneven = true;
                         }),
                    everybody);
  if (hvd::size() == 1) return;
  const hvd::ProcessSet sets[2] = {hvd::add_process_set(halves[0]),
                                   hvd::add_process_set(halves[1])};
  const std::vector<int>& mine = halves[hvd::rank() % 2];
  const auto in_set = [&](Combination& one) { one.options.process_set = sets[hvd::rank() % 2]; };
  check_combination(with("momentum in a set", inner_momentum, 1e-12, in_set), mine);
  check_combination(with("Adam in a set", inner_adam, 1e-9, in_set), mine, true);
  check_combination(with("adaptive sum in a set", inner_momentum, 1e-10,
                         [&](Combination& one) {
                           one.options.op = ReduceOp::adasum;
                           in_set(one);
                         }),
                    mine);
  check_combination(with("bf16 and clipping in a set", inner_momentum, 1e-3,
                         [&](Combination& one) {
                           one.clipped = one.scaled = true;
                           one.options.compression = Compression::bf16;
                           in_set(one);
                         }),
                    mine);
  hvd::barrier();
}

// Objects and batch normalization while rank 0 has no more of its own.
void check_beside_joined() {
  const int ranks = hvd::size();
  if (ranks > 1 && hvd::rank() != 0) {
    const std::vector<std::string> all =
        hvd::allgather_object(std::string(static_cast<std::size_t>(hvd::rank()), 'x'));
    for (int rank = 0; rank < ranks; ++rank)
      expect(all[static_cast<std::size_t>(rank)].size() == static_cast<std::size_t>(rank),
             "allgather_object beside a joined rank");
    const std::string root = hvd::broadcast_object("rank " + std::to_string(hvd::rank()), 1);
    expect(root == "rank 1", "broadcast_object beside a joined rank: " + root);
    const std::string text = error_of([] { hvd::broadcast_object("mine", 0); });
    expect(text.find("joined") != std::string::npos, "a root that has joined: " + text);
    // As one process would normalise the batches of the others.
    const auto batch_of = [](int rank) {
      torch::manual_seed(rank);
      return torch::randn({3, 2}, torch::kDouble) * rank;
    };
    Tensors batches;
    for (int rank = 1; rank < ranks; ++rank) batches.push_back(batch_of(rank));
    hvd::SyncBatchNorm layer(2);
    layer->to(torch::kDouble);
    torch::nn::BatchNorm1d whole(2);
    whole->to(torch::kDouble);
    const Tensor wanted = whole->forward(torch::cat(batches));
    const Tensor got = layer->forward(batch_of(hvd::rank()));
    expect(got.allclose(wanted.narrow(0, 3 * (hvd::rank() - 1), 3), 1e-9, 1e-9),
           "SyncBatchNorm beside a joined rank");
  }
  hvd::join();
}

// The ranks' own metrics get better by turns, their mean does not from the third epoch on.
// What a step exchanges is known after a few of them.
void check_nothing_negotiated() {
  TinyNet net;
  torch::optim::SGD sgd(net.parameters, 0.01);
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 64;  // several buckets
  hvd::DistributedOptimizer optimizer(sgd, options);
  const auto steps = [&](int count) {
    const hvd::Statistics before = hvd::statistics();
    for (int step = 0; step < count; ++step) {
      optimizer.zero_grad();
      net.loss(hvd::rank(), step).backward();
      optimizer.step();
    }
    const hvd::Statistics after = hvd::statistics();
    expect(hvd::size() == 1 || after.operations >= before.operations + 2 * count, "buckets");
    return after.negotiations - before.negotiations;
  };
  steps(10);
  hvd::barrier();
  steps(3);
  const auto negotiations = steps(100);
  expect(negotiations == 0, std::to_string(negotiations) + " negotiations in 100 steps");
}

// Each step has other rows, and another number of them, on every rank.
void check_sparse_negotiates_nothing() {
  torch::nn::Embedding words(torch::nn::EmbeddingOptions(50, 4).sparse(true));
  torch::nn::Embedding others(torch::nn::EmbeddingOptions(20, 2).sparse(true));
  hvd::broadcast_parameters(*words);
  hvd::broadcast_parameters(*others);
  torch::optim::SGD sgd({words->weight, others->weight}, torch::optim::SGDOptions(0.01));
  hvd::DistributedOptimizerOptions options;
  options.sparse = {words->weight, others->weight};
  hvd::DistributedOptimizer optimizer(sgd, options);
  std::int64_t number = 0;
  const auto negotiations_of = [&](int count) {
    const std::uint64_t before = hvd::statistics().negotiations;
    for (int step = 0; step < count; ++step, ++number) {
      optimizer.zero_grad();
      const auto rows = [&](std::int64_t of) {
        return torch::arange(1 + (number * 7 + hvd::rank() * 5) % of, torch::kLong);
      };
      (words->forward(rows(50)).sum() + others->forward(rows(20)).sum()).backward();
      optimizer.step();
    }
    return hvd::statistics().negotiations - before;
  };
  // All ranks count the same, and on a busy machine they may learn something new once more.
  std::uint64_t negotiations = 1;
  for (int window = 0; window < 20 && negotiations > 0; ++window)
    negotiations = negotiations_of(100);
  expect(negotiations == 0,
         std::to_string(negotiations) + " negotiations in 100 steps with sparse gradients");
  expect(hvd::allreduce(words->weight.detach()).allclose(words->weight), "rows on all ranks");
}

void check_early_stop() {
  hvd::EarlyStop early;
  int epoch = 0;
  for (bool done = false; !done; ++epoch) {
    const double mean = epoch < 3 ? 10.0 - epoch : 9.0;
    const double own = hvd::size() == 1 ? 0 : (hvd::rank() - (hvd::size() - 1) / 2.0) * epoch;
    done = early.update(mean + own);
  }
  expect(epoch == 4, "EarlyStop: " + std::to_string(epoch) + " epochs");
}

}  // namespace

int run(const Arguments& /*arguments*/) {
  return run_checks([&] {
    check_combinations();
    check_beside_joined();
    check_nothing_negotiated();
    check_sparse_negotiates_nothing();
    check_early_stop();
  });
}

}  // namespace hvdrun::test::combination_probe
