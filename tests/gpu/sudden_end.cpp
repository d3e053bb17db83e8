#include "tests/gpu/sudden_end.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/gpu/driver_calls.h"
#include "tests/gpu/gpu_rank.h"
#include "worker/hvd/gpu/rank_gpu.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

constexpr int kCode = 7;

void leave(int /*signal*/) { std::exit(kCode); }

std::atomic<bool> g_main_leaves{false};

void end_now(const std::string& how) {
  if (how == "SIGTERM") ::kill(::getpid(), SIGTERM);
  if (how == "SIGINT") ::kill(::getpid(), SIGINT);
  if (how == "exit") g_main_leaves = true;
  if (how == "exit-of-thread") std::exit(kCode);
  if (how == "exit-of-handler") ::kill(::getpid(), SIGTERM);  // on the main thread
  if (how == "exception") throw std::runtime_error("thrown by the test, and nobody catches it");
}

void leave_if_told() {
  if (g_main_leaves) std::exit(kCode);
}

// An allreduce as a graph that is launched again and again.
void work(NcclCommunicator& own, const GpuDevice& device) {
  GpuRank rank(own, device);
  const DeviceBytes data(device, 1U << 20);
  const Reduction sum{hvd::DataType::float32, hvd::ReduceOp::sum};
  const std::size_t count = data.size() / sizeof(float);
  const auto once = [&](const GpuCall& call) {
    return own.allreduce(data.get(), data.get(), count, sum, call);
  };
  const CurrentDevice current(device);
  own.wait(once(rank.call), 60s);
  const GraphCalls graphs("libcuda.so.1");
  graphs.begin(rank.user.get());
  const auto events = std::make_shared<GpuEvents>(device);
  const GpuMark mark(events, rank.user.get());
  const std::vector<cuda::Event> after{mark.event()};
  GpuCall captured = rank.call;
  captured.after = &after;
  captured.captured = true;
  own.lead(once(captured), rank.user.get());
  const GraphCalls::Graph step(graphs, rank.user.get());
  for (int round = 0;; ++round) {
    leave_if_told();
    GpuTicket last = 0;
    for (int i = 0; i < 4; ++i) last = once(rank.call);
    step.launch(rank.user.get());
    if (round % 8 == 0) own.wait(last, 60s);
    if (round % 8 == 4) rank.drain();
  }
}

}  // namespace

std::string end_text(int status) {
  return WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status));
}

void end_suddenly(const CheckRank& rank) {
  const std::string rest = rank.what.substr(std::string(kSuddenEnd).size());
  const std::string how = rest.substr(0, rest.find(':'));
  const std::chrono::milliseconds moment(std::stoi(rest.substr(rest.find(':') + 1)));
  if (how == "exit-of-handler") std::signal(SIGTERM, leave);
  std::thread([=] {
    // The moment itself is what is tested.
    std::this_thread::sleep_for(moment);
    sigset_t own;
    ::sigfillset(&own);
    ::pthread_sigmask(SIG_BLOCK, &own, nullptr);
    end_now(how);
  }).detach();
  try {
    // As a job is that is not shut down: nothing is destroyed.
    const char* const file = std::getenv(kNcclLibraryVariable);
    auto& gpu = *new RankGpu(select_device(rank.rank, rank.size, nullptr, {}, true),
                             file != nullptr ? file : "");
    leave_if_told();
    const GpuParts parts = rank.size > 1 ? gpu.parts().parts : gpu.parts_alone();
    auto& own = *new NcclCommunicator(parts, rank.rank, rank.size);
    gpu.watch().add(own);
    if (rank.size > 1) own.connect(shared_id(rank, *parts.nccl), 60s);
    work(own, gpu.device());
  } catch (const std::exception&) {
    // The other rank has ended first, or exit() has reached us: this one's end is near.
  }
  for (;;) {
    leave_if_told();
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace hvdrun::test
