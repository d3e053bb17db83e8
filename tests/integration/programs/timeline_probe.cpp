// A rank that records a timeline by hand: the engine's part, without collectives.
//
//   timeline_probe [steps] [wait]          records `steps` operations on each of two tensors
//   timeline_probe dynamic FOLDER          starts and stops the timeline twice
//   timeline_probe flood                   records more than fits while nobody takes
//   timeline_probe cost                    prints what an event costs, in nanoseconds
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

#include "worker/hvd/client/agent_connection.h"
#include "worker/hvd/client/timeline_settings.h"
#include "worker/hvd/engine/timeline.h"

namespace {

using namespace hvdrun;
using namespace std::chrono_literals;

auto in(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

void operation(Timeline& timeline, const std::string& tensor) {
  timeline.begin(tensor, TimelinePhase::negotiate, TimelineOp::allreduce);
  timeline.end(tensor, TimelinePhase::negotiate, TimelineOp::allreduce);
  for (const TimelinePhase phase : {TimelinePhase::queue, TimelinePhase::copy_in,
                                    TimelinePhase::reduce, TimelinePhase::copy_out}) {
    const TimelineSpan span(&timeline, tensor, phase, TimelineOp::allreduce);
  }
}

void record(Timeline& timeline, int steps) {
  for (int step = 0; step < steps; ++step) {
    timeline.mark_cycle();
    // One inside the other, as tensors of one cycle are.
    timeline.begin("outer \"tensor\"", TimelinePhase::queue);
    operation(timeline, "grad.0");
    timeline.end("outer \"tensor\"", TimelinePhase::queue);
  }
}

int cost() {
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  constexpr int kRounds = 100;
  Timeline timeline;
  const auto measure = [&](const char* what) {
    Nanoseconds recording{};
    Nanoseconds taking{};
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < Timeline::kBatch / 2; ++i) {
        timeline.begin("DistributedOptimizer.bucket.12", TimelinePhase::reduce);
        timeline.end("DistributedOptimizer.bucket.12", TimelinePhase::reduce);
      }
      const auto recorded = std::chrono::steady_clock::now();
      while (timeline.take()) {
      }
      recording += recorded - begin;
      taking += std::chrono::steady_clock::now() - recorded;
    }
    constexpr double kEvents = static_cast<double>(Timeline::kBatch) * kRounds;
    std::printf("%s: an event costs %.1f ns where it is recorded, %.1f ns where it is taken\n",
                what, recording.count() / kEvents, taking.count() / kEvents);
  };
  measure("off");
  timeline.start(false);
  measure("on");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "cost") return cost();
  const auto environment = read_worker_environment(process_environment);
  if (!environment) return 2;
  const TimelineSettings settings = read_timeline_settings(process_environment);
  try {
    // Both outlive the line, whose thread takes events.
    std::unique_ptr<Timeline> owner;
    std::atomic<bool> empty{false};
    std::atomic<bool> busy{false};
    AgentConnection line(*environment, in(20s));
    owner = std::make_unique<Timeline>([&line](bool at_once) { line.timeline_ready(at_once); });
    Timeline& timeline = *owner;
    line.set_timeline([&] {
      while (busy) std::this_thread::sleep_for(1ms);  // as one whose core others have
      auto batch = timeline.take();
      if (!batch) empty = true;
      return batch;
    });
    const std::uint32_t rank = line.topology().rank;
    if (settings.from_start) timeline.start(settings.mark_cycles);
    line.fence("", in(20s));
    if (mode == "dynamic") {
      for (int i = 0; i < 2; ++i) {
        timeline.start(true);
        line.start_timeline(
            timeline.session(),
            rank == 0 ? std::string(argv[2]) + "/" + std::to_string(i) + ".json" : "");
        record(timeline, 10 + i);
        timeline.stop();
        line.stop_timeline(timeline.session());
        operation(timeline, "not recorded");
        line.fence("", in(20s));
      }
    } else if (mode == "flood") {
      busy = true;
      for (std::size_t i = 0; i < Timeline::kCapacity / 5; ++i)  // ten events each
        operation(timeline, "tensor " + std::to_string(i % 3000));
      busy = false;
    } else {
      record(timeline, std::atoi(mode.c_str()));
      if (argc > 2) {
        timeline.begin("stuck", TimelinePhase::reduce, TimelineOp::alltoall);
        // The agent has it when it has what follows it, and hvdrun before it has the line below.
        for (int i = 0; i < 2; ++i) {  // the first time somebody may just be looking
          empty = false;
          line.timeline_ready(true);
          while (!empty) std::this_thread::sleep_for(1ms);
        }
        line.put("stuck " + std::to_string(rank), "", in(20s));
        std::printf("waiting\n");
        std::fflush(stdout);
        ::pause();
      }
    }
    line.fence("", in(20s));
    line.leave();
    std::printf("fine\n");
    return 0;
  } catch (const hvd::Error& e) {
    std::printf("hvd::Error: %s\n", e.what());
    return 9;
  }
}
