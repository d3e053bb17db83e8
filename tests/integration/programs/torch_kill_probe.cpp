// Trains until another rank is gone: prints "process PID (rank R)" when the first steps are done,
// then "lost after N ms: ..." with the time since the last whole step. Ignores SIGTERM, so that the
// launcher lets it say so.
#include <chrono>
#include <cstdio>
#include <signal.h>
#include <string>
#include <unistd.h>

#include <hvd/torch.h>

#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::kill_probe {
namespace {

using KillClock = std::chrono::steady_clock;

int train_until_lost() {
  ::signal(SIGTERM, SIG_IGN);
  hvd::init();
  torch::manual_seed(hvd::rank());
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(),
                              hvd::SyncBatchNorm(256), torch::nn::Linear(256, 10));
  hvd::broadcast_parameters(*model);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 16 << 10;
  options.named_parameters = model->named_parameters();
  hvd::DistributedOptimizer optimizer(sgd, options);
  const torch::Tensor input = torch::randn({8, 64});
  const torch::Tensor target = torch::randint(10, {8});
  KillClock::time_point begin;
  try {
    for (int step = 0;; ++step) {
      begin = KillClock::now();
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(model->forward(input), target).backward();
      optimizer.step();
      if (step % 10 == 9) hvd::metric_average(step);
      if (step != 3) continue;
      std::printf("process %d (rank %d)\n", ::getpid(), hvd::rank());
      std::fflush(stdout);
    }
  } catch (const hvd::Error& error) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(KillClock::now() - begin);
    const bool lost = error.code() == hvd::ErrorCode::peer_lost;
    std::printf("%s after %lld ms: %s\n", lost ? "lost" : "error",
                static_cast<long long>(ms.count()), error.what());
    std::fflush(stdout);
    return lost ? 3 : 4;
  }
}

}  // namespace

int run(const Arguments& /*arguments*/) {
  try {
    return train_until_lost();
  } catch (const std::exception& error) {
    std::printf("torch_probe kill: %s\n", error.what());
    return 1;
  }
}

}  // namespace hvdrun::test::kill_probe
