// A program with a GPU that ends in the middle of something: exit_probe WHAT HOW. Over the fake
// driver, which crashes who calls it while it ends.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <hvd/hvd.h>

#include "tests/gpu/driver_calls.h"
#include "tests/unit/worker/hvd/gpu/fake_gpu.h"
#include "tests/unit/worker/hvd/gpu/loaded_fake.h"
#include "worker/hvd/gpu/rank_gpu.h"

namespace {

using namespace hvdrun;
using namespace std::chrono_literals;

constexpr int kCode = 7;
// Many looks of the watch's, and many operations.
constexpr int kEndTakesMs = 150;

// As long as the process.
template <class T>
std::shared_ptr<T> kept(std::shared_ptr<T> thing) {
  static auto* const all = new std::vector<std::shared_ptr<const void>>;
  all->push_back(thing);
  return thing;
}

// Lives until the process is gone, as a job does that is not shut down.
struct Rank {
  explicit Rank(int number)
      : gpu(std::make_shared<RankGpu>(select_device(number, 8, nullptr, test::fake_file()),
                                      std::string(test::fake_file()))),
        own(gpu->parts().parts, number, 2) {}
  std::shared_ptr<RankGpu> gpu;
  NcclCommunicator own;
  float value = 1;
};

void sum(Rank& rank) {
  rank.own.allreduce(&rank.value, &rank.value, 1, {hvd::DataType::float32, hvd::ReduceOp::sum},
                     {nullptr, 60s});
}

// Both ranks, forever.
void sum_for_ever(Rank& rank, std::atomic<int>& rounds) {
  const CurrentDevice current(rank.gpu->device());
  try {
    for (;; ++rounds) sum(rank);
  } catch (const hvd::Error&) {
    // The process ends.
  }
}

void begin_scene(const std::string& what, std::vector<Rank*>& ranks) {
  test::FakeGpu& gpu = test::fake();
  static std::atomic<int> rounds{0};
  const auto on_thread = [&](auto body) {
    for (Rank* const rank : ranks) std::thread([=] { body(*rank); }).detach();
  };
  if (what == "operation") {
    // Rank 1 never comes: the watch looks again and again, and NCCL's kernel does not end.
    const CurrentDevice current(ranks[0]->gpu->device());
    sum(*ranks[0]);
  } else if (what == "calls") {
    on_thread([](Rank& rank) { sum_for_ever(rank, rounds); });
    while (rounds < 20) std::this_thread::yield();
  } else if (what == "abort") {
    // NCCL takes longer for it than exit() waits.
    const CurrentDevice current(ranks[0]->gpu->device());
    sum(*ranks[0]);
    gpu.aborts_held = true;
    ranks[0]->gpu->abort({hvd::ErrorCode::peer_lost, "gone"});
    while (gpu.aborts == 0) std::this_thread::yield();
  } else if (what == "graph") {
    const auto graphs = kept(std::make_shared<const test::GraphCalls>(test::fake_file()));
    const GpuDevice& device = ranks[0]->gpu->device();
    const CurrentDevice current(device);
    const auto user = kept(std::make_shared<GpuStream>(device));
    graphs->begin(user->get());
    const auto mark =
        kept(std::make_shared<const GpuMark>(std::make_shared<GpuEvents>(device), user->get()));
    const std::vector<cuda::Event> after{mark->event()};
    const GpuTicket ticket = ranks[0]->own.allreduce(&ranks[0]->value, &ranks[0]->value, 1,
                                                     {hvd::DataType::float32, hvd::ReduceOp::sum},
                                                     {nullptr, 60s, &after, true});
    ranks[0]->own.lead(ticket, user->get());
    const auto step = kept(std::make_shared<const test::GraphCalls::Graph>(*graphs, user->get()));
    step->launch(user->get());
  }
}

void leave(int /*signal*/) { std::exit(kCode); }

}  // namespace

// That exit() is called in a signal's handler is what some ends are about.
extern "C" const char* __tsan_default_options();   // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "report_signal_unsafe=0";
}

// NOLINTNEXTLINE(bugprone-exception-escape): that is one of the ends
int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const std::string what = argv[1];
  const std::string how = argv[2];
  std::vector<Rank*> ranks;
  for (int number = 0; number < 2; ++number) ranks.push_back(new Rank(number));
  test::fake().end_takes_ms = kEndTakesMs;
  const nccl::UniqueId id = NcclCommunicator::make_id(*ranks[0]->gpu->parts().parts.nccl);
  std::vector<std::thread> threads;
  for (Rank* const rank : ranks) threads.emplace_back([=] { rank->own.connect(id, 20s); });
  for (std::thread& thread : threads) thread.join();
  for (Rank* const rank : ranks) rank->gpu->watch().add(rank->own);
  begin_scene(what, ranks);
  if (how == "return") return kCode;
  if (how == "exit") std::thread([] { std::exit(kCode); }).join();
  if (how == "exception") throw std::runtime_error("nobody catches it");
  if (how == "handler") {
    std::signal(SIGTERM, leave);
    ::kill(::getpid(), SIGTERM);
  }
  if (how == "SIGTERM") ::kill(::getpid(), SIGTERM);
  if (how == "SIGINT") ::kill(::getpid(), SIGINT);
  for (;;) ::pause();
}
