// Many small named tensors, submitted by each rank in an order of its own, and a job that does
// nothing.
//
//   small_tensors order STEPS    prints the median seconds of a step (that of the slowest rank) and
//                                how often ranks negotiated in the counted steps
//   small_tensors idle SECONDS   sleeps between init and shutdown
//   small_tensors timeline BLOCKS FILE
//                                reduces one number again and again, in blocks with a timeline
//                                and without one in turn, the first with one; prints a line
//                                before and behind each block
//                                (hvdrun --timeline-filename DYNAMIC)
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
constexpr int kReductions = 50'000;     // of a block with or without a timeline
constexpr int kBurst = 500;             // of these without a pause
constexpr std::chrono::milliseconds kPause{5};
constexpr std::chrono::milliseconds kQuiet{300};  // what has been recorded is in the file by then
constexpr std::chrono::milliseconds kLook{100};   // for whoever reads the line

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

void tell() {
  std::this_thread::sleep_for(kQuiet);
  hvd::barrier();
  if (hvd::rank() == 0) std::puts("now");
  std::fflush(stdout);
  std::this_thread::sleep_for(kLook);
}

// Slow enough that no event is dropped; a rank alone never waits for another one, which would be
// CPU time as well.
int with_timeline(int blocks, const std::string& file) {
  hvd::OperationOptions options;
  options.name = "number";
  for (int block = 0; block < 2 * blocks; ++block) {
    const bool on = block % 2 == 0;
    if (on) hvd::start_timeline(file);
    tell();
    for (int i = 0; i < kReductions; ++i) {
      float number = 1;
      hvd::allreduce(&number, &number, 1, hvd::ReduceOp::sum, {}, options);
      if (i % kBurst == 0) std::this_thread::sleep_for(kPause);
    }
    tell();
    if (on) hvd::stop_timeline();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 64;
  hvd::init();
  int code = 0;
  if (argc == 4)
    code = with_timeline(std::atoi(argv[2]), argv[3]);
  else if (argv[1] == std::string("idle"))
    std::this_thread::sleep_for(std::chrono::seconds(std::atoi(argv[2])));
  else
    code = order(std::atoi(argv[2]));
  hvd::shutdown();
  return code;
}
