// Many small named tensors, submitted by each rank in an order of its own, and a job that does
// nothing.
//
//   small_tensors order STEPS    prints the median seconds of a step (that of the slowest rank) and
//                                how often ranks negotiated in the counted steps
//   small_tensors idle SECONDS   sleeps between init and shutdown
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

namespace {

constexpr std::size_t kTensors = 1000;
constexpr std::size_t kElements = 256;  // 1 KiB
constexpr int kWarmUp = 50;             // until it is known what follows what

int order(int steps) {
  std::vector<std::vector<float>> tensors(kTensors, std::vector<float>(kElements));
  std::vector<hvd::OperationOptions> options(kTensors);
  for (std::size_t i = 0; i < kTensors; ++i) options[i].name = "tensor." + std::to_string(i);
  std::vector<std::size_t> mine(kTensors);
  std::iota(mine.begin(), mine.end(), std::size_t{0});
  std::shuffle(mine.begin(), mine.end(), std::mt19937(static_cast<unsigned>(hvd::rank()) + 1));
  std::vector<hvd::Handle> handles(kTensors);
  std::vector<double> seconds;
  std::uint64_t before = 0;
  for (int step = -kWarmUp; step < steps; ++step) {
    for (std::size_t i = 0; i < kTensors; ++i)
      std::fill(tensors[i].begin(), tensors[i].end(), static_cast<float>(i));
    if (step == 0) before = hvd::statistics().negotiations;
    hvd::barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (const std::size_t i : mine)
      handles[i] = hvd::allreduce_async(tensors[i].data(), tensors[i].data(), kElements,
                                        hvd::ReduceOp::sum, {}, options[i]);
    for (const hvd::Handle& handle : handles) hvd::synchronize(handle);
    if (step >= 0)
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    for (std::size_t i = 0; i < kTensors; ++i) {
      if (tensors[i][0] == static_cast<float>(i) * static_cast<float>(hvd::size())) continue;
      std::fprintf(stderr, "tensor %zu: %g\n", i, static_cast<double>(tensors[i][0]));
      return 1;
    }
  }
  const std::uint64_t negotiations = hvd::statistics().negotiations - before;
  hvd::allreduce(seconds.data(), seconds.data(), seconds.size(), hvd::ReduceOp::max);
  std::sort(seconds.begin(), seconds.end());
  if (hvd::rank() == 0)
    std::printf("%.9f %llu\n", seconds[seconds.size() / 2],
                static_cast<unsigned long long>(negotiations));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  hvd::init();
  int code = 0;
  if (argv[1] == std::string("idle"))
    std::this_thread::sleep_for(std::chrono::seconds(std::atoi(argv[2])));
  else
    code = order(std::atoi(argv[2]));
  hvd::shutdown();
  return code;
}
