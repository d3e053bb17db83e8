// The timeline of operations on GPU memory, over the fake driver and NCCL.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/gpu/driver_calls.h"
#include "tests/unit/worker/hvd/engine/gpu_ranks.h"
#include "worker/hvd/engine/timeline.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

// The ranks' timelines, from their start.
struct Timelines {
  explicit Timelines(std::size_t ranks) {
    for (std::size_t i = 0; i < ranks; ++i) {
      all.push_back(std::make_unique<Timeline>());
      all.back()->start(false);
    }
  }
  std::function<void(EngineOptions&, int)> give() {
    return [this](EngineOptions& options, int rank) {
      options.timeline = all[static_cast<std::size_t>(rank)].get();
    };
  }
  std::vector<std::unique_ptr<Timeline>> all;
};

const char* word_of(TimelineMark mark) {
  switch (mark) {
    case TimelineMark::begin:
      return "(";
    case TimelineMark::end:
      return ")";
    case TimelineMark::gpu_begin:
      return "gpu(";
    case TimelineMark::gpu_end:
      return "gpu)";
    default:
      return "?";
  }
}

// By tensor what was told of it: "2( 2) 1( 1) gpu( gpu)", with the numbers of phases. Adds what is
// there by now, and checks the times of a GPU.
void take(Timeline& timeline, std::map<std::string, std::string>& told) {
  while (const auto batch = timeline.take()) {
    TimelineEvents events;
    if (decode(batch->bytes, events)) throw std::runtime_error("a damaged batch");
    std::map<std::string, std::uint32_t> begun;
    for (const TimelineEvent& event : events.events) {
      const std::string& name = events.names.at(event.name);
      std::string& text = told[name];
      if (!text.empty()) text += " ";
      const bool on_gpu =
          event.mark == TimelineMark::gpu_begin || event.mark == TimelineMark::gpu_end;
      if (on_gpu && event.op != TimelineOp::allreduce) throw std::runtime_error("another op");
      if (!on_gpu) text += std::to_string(static_cast<int>(event.phase));
      text += word_of(event.mark);
      if (event.mark == TimelineMark::gpu_begin) begun[name] = event.after_ns;
      if (event.mark == TimelineMark::gpu_end && begun.count(name) == 1 &&
          event.after_ns < begun[name])
        throw std::runtime_error("ended before it began");
    }
  }
}

}  // namespace

TEST_CASE("the timeline has an operation's queue, its meeting and its time on the GPU",
          "[engine][gpu][timeline]") {
  Timelines timelines(2);
  GpuRanks ranks({2}, timelines.give());
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    std::vector<float> value(4, 1);
    // The engine tries again what it does not do together with the other rank at once.
    for (int step = 0; step < 3; ++step) {
      engine.synchronize(engine.submit(
          on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, "submitted")));
      engine.run(on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, "blocking"));
    }
    GpuRanks::drain(user);
    std::map<std::string, std::string> told;
    const auto count = [&](const std::string& name, const std::string& part) {
      std::size_t found = 0;
      for (std::size_t at = told[name].find(part); at != std::string::npos;
           at = told[name].find(part, at + 1))
        ++found;
      return found;
    };
    // On a busy machine the fake's clock is asked again after a second.
    const auto limit = std::chrono::steady_clock::now() + 20s;
    do {
      ranks.gpus[rank]->tell_times();
      take(*timelines.all[rank], told);
    } while (count("submitted", "gpu)") + count("blocking", "gpu)") < 6 &&
             std::chrono::steady_clock::now() < limit);
    for (const std::string name : {"submitted", "blocking"}) {
      const std::string words = name + ": " + told[name];
      expect(count(name, "gpu(") == 3 && count(name, "gpu)") == 3, words);
      expect(count(name, "1(") >= 3 && count(name, "1(") == count(name, "1)"), words);
      // No copy, and no reduction by the host.
      expect(count(name, "3(") == 0 && count(name, "4(") == 0, words);
    }
    expect(count("submitted", "2(") == 3 && count("submitted", "2)") == 3, told["submitted"]);
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("operations that run as one are told each, by the watch if nobody asks",
          "[engine][gpu][timeline]") {
  Timelines timelines(2);
  GpuRanks ranks({2}, timelines.give());
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    std::vector<std::vector<float>> values(5, std::vector<float>(3, 1));
    std::vector<std::uint64_t> ids;
    for (std::size_t i = 0; i < values.size(); ++i)
      ids.push_back(engine.submit(on_gpu(OpKind::allreduce, values[i].data(), values[i].data(), 3,
                                         user, "t" + std::to_string(i))));
    for (const std::uint64_t id : ids) engine.synchronize(id);
    GpuRanks::drain(user);
    std::map<std::string, std::string> told;
    const auto all_told = [&] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string& text = told["t" + std::to_string(i)];
        if (text.find("gpu( gpu)") == std::string::npos) return false;
      }
      return true;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!all_told() && std::chrono::steady_clock::now() < limit) {
      take(*timelines.all[rank], told);
      std::this_thread::yield();
    }
    expect(all_told(), "t0: " + told["t0"]);
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("without a timeline, and in graphs, a GPU is asked for no times",
          "[engine][gpu][timeline]") {
  Timelines timelines(2);
  const bool on = GENERATE(false, true);
  if (!on)
    for (auto& timeline : timelines.all) timeline->stop();
  GpuRanks ranks({2}, timelines.give());
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    float value = 1;
    const auto run = [&](const char* name) {
      engine.run(on_gpu(OpKind::allreduce, &value, &value, 1, user, name));
    };
    if (on) timelines.all[rank]->stop();
    run("first");
    GpuRanks::drain(user);
    engine.run(Operation{});
    const int made = fake().timing_events;
    engine.run(Operation{});
    if (on) timelines.all[rank]->start(false);
    graphs.begin(user.get());
    run("captured");
    const GraphCalls::Graph step(graphs, user.get());
    step.launch(user.get());
    GpuRanks::drain(user);
    ranks.gpus[rank]->tell_times();
    std::map<std::string, std::string> told;
    take(*timelines.all[rank], told);
    expect(told["captured"] == (on ? "1( 1)" : ""), "captured: " + told["captured"]);
    expect(fake().timing_events == made, "events with timing");
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}
