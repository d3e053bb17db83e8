// elastic_check HOW [--cpu]: a rank of an elastic job (hvdrun --min-np 1). The last rank of each
// epoch kills itself, until slot 0 is alone and nobody has come for a while. It does so
//
//   kernel    when its part of an allreduce has been queued, and the others' wait for it
//   init      while NCCL connects the ranks
//   captured  in a step that is a graph
//
// Slot 0 stays for all of it, in one process. It says what it uses each time the ranks have met,
// and fails where that has grown. --cpu: the same operations on memory of the CPU, "captured"
// without a graph.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <dlfcn.h>
#include <hvd/elastic_run.h>

#include "tests/gpu/driver_calls.h"
#include "tests/gpu/gpu_program.h"
#include "tests/gpu/shared_gpu.h"

namespace {

using namespace hvdrun;
using namespace hvdrun::test;
using namespace std::chrono_literals;

constexpr std::size_t kCount = 1U << 20;
constexpr int kSteps = 5;  // of an epoch, before its last rank goes

// The growth that one process may have after its first losses: NCCL keeps some for later.
constexpr std::size_t kGrownFiles = 8;
constexpr std::size_t kGrownThreads = 8;
constexpr std::size_t kGrownMemory = 128U << 20U;

void end_me() { ::kill(::getpid(), SIGKILL); }

void end_me_soon() {
  std::thread([] {
    std::this_thread::sleep_for(100ms);
    end_me();
  }).detach();
}

class Trainer {
 public:
  virtual ~Trainer() = default;
  // An average over all ranks, which is the same on each.
  virtual void queue_step() = 0;
  // For its end on the GPU. What a lost rank has left undone leaves the GPU by itself.
  virtual void wait() {}
  // The result of a step that all ranks have done.
  virtual void check() {}
  virtual void leave() {}
  // Nobody knows what a step that was broken off has left.
  virtual void reset() {}
  virtual std::size_t free_memory() { return 0; }
};

class OnCpu final : public Trainer {
 public:
  void queue_step() override {
    hvd::allreduce(data_.data(), data_.data(), data_.size(), hvd::ReduceOp::average);
  }

 private:
  Floats data_ = Floats(kCount, 1.0F);
};

class OnGpu final : public Trainer {
 public:
  explicit OnGpu(bool captures) : captures_(captures) {
    auto driver = load_cuda_driver();
    if (!driver.value) throw std::runtime_error(driver.why);
    if (hvd::gpu() < 0) throw std::runtime_error("hvd::init has taken no GPU");
    driver_ = std::move(driver.value);
    device_ = std::make_unique<GpuDevice>(*driver_, hvd::gpu());
    program_ = std::make_unique<Program>(*device_);
    data_ = std::make_unique<DeviceBytes>(*device_, kCount * sizeof(float));
    reset();
    memory_info_ =
        reinterpret_cast<MemoryInfo>(::dlsym(::dlopen(kDriverFile, RTLD_NOW), "cuMemGetInfo_v2"));
    if (memory_info_ == nullptr) throw std::runtime_error("the driver has no cuMemGetInfo");
  }
  void queue_step() override {
    if (!captures_ || hvd::size() == 1) return call();
    auto* const stream = static_cast<cuda::Stream>(program_->options.stream);
    if (!graph_) {
      call();  // connects the ranks, which no graph can
      program_->drain();
      graphs_.begin(stream);
      try {
        call();
      } catch (const hvd::Error&) {
        graphs_.drop(stream);
        throw;
      }
      graph_ = std::make_unique<GraphCalls::Graph>(graphs_, stream);
    }
    graph_->launch(stream);
  }
  void wait() override { program_->drain(); }
  void check() override { program_->check(*data_, ones_, "an average of ones"); }
  void leave() override { graph_.reset(); }
  void reset() override {
    program_->upload(*data_, ones_);
    program_->drain();
  }
  std::size_t free_memory() override {
    const CurrentDevice current(*device_);
    std::size_t free = 0;
    std::size_t all = 0;
    memory_info_(&free, &all);
    return free;
  }

 private:
  using MemoryInfo = cuda::Result (*)(std::size_t*, std::size_t*);
  void call() {
    hvd::allreduce(floats(*data_), floats(*data_), kCount, hvd::ReduceOp::average, {},
                   program_->options);
  }

  const bool captures_;
  const Floats ones_ = Floats(kCount, 1.0F);
  GraphCalls graphs_{kDriverFile};
  std::unique_ptr<const CudaDriver> driver_;
  std::unique_ptr<GpuDevice> device_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<DeviceBytes> data_;
  std::unique_ptr<GraphCalls::Graph> graph_;
  MemoryInfo memory_info_ = nullptr;
};

struct Use {
  std::size_t files = 0;
  std::size_t threads = 0;
  std::size_t free_memory = 0;
};

std::size_t entries_in(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// The growth of one process over the epochs of each number of ranks: the GPU's memory is that of
// all.
class Growth {
 public:
  void note(Trainer& trainer) {
    Use now{entries_in("/proc/self/fd"), entries_in("/proc/self/task"), trainer.free_memory()};
    // The kernel may be at the memory of the lost rank still.
    for (int waited = 0; waited < 50; ++waited) {
      std::this_thread::sleep_for(20ms);
      now.free_memory = std::max(now.free_memory, trainer.free_memory());
    }
    const int epochs = ++epochs_[hvd::size()];
    std::printf("meeting %d: %d ranks, %zu descriptors, %zu threads, %zu MiB free\n", ++meetings_,
                hvd::size(), now.files, now.threads, now.free_memory >> 20U);
    std::fflush(stdout);
    if (epochs == 2) first_[hvd::size()] = now;
    if (epochs < 2) return;
    const Use& then = first_[hvd::size()];
    if (now.files > then.files + kGrownFiles || now.threads > then.threads + kGrownThreads ||
        now.free_memory + kGrownMemory < then.free_memory)
      grown_ = true;
  }
  bool has_grown() const { return grown_; }

 private:
  int meetings_ = 0;
  std::map<int, int> epochs_;
  std::map<int, Use> first_;  // in the second epoch: the first one's loads libraries
  bool grown_ = false;
};

void train(const std::string& how, Trainer& trainer, hvd::elastic::State& state) {
  const bool last = hvd::size() > 1 && hvd::rank() == hvd::size() - 1;
  if (last && how == "init") end_me_soon();
  for (int step = 0; hvd::size() > 1; ++step) {
    trainer.queue_step();
    if (last && step == kSteps) end_me();
    trainer.wait();
    state.commit();
    trainer.check();
  }
  // The pause before a slot's last start is a second, and its start takes a while.
  for (int waited = 0; waited < 800; ++waited) {
    std::this_thread::sleep_for(10ms);
    state.commit();
  }
}

int run(const std::string& how, bool on_cpu) {
  hvd::init();
  const char* const slot = std::getenv("HVD_RANK");  // NOLINT(concurrency-mt-unsafe)
  const bool stays = slot != nullptr && std::string(slot) == "0";
  std::unique_ptr<Trainer> trainer;
  if (on_cpu)
    trainer = std::make_unique<OnCpu>();
  else
    trainer = std::make_unique<OnGpu>(how == "captured");
  Growth growth;
  int step = 0;
  hvd::elastic::MemoryState state;
  state.add("step", step);
  state.register_leave_callback([&] { trainer->leave(); });
  state.register_reset_callback([&] { trainer->reset(); });
  hvd::elastic::run(state, [&] {
    if (stays) growth.note(*trainer);
    train(how, *trainer, state);
  });
  trainer.reset();
  hvd::shutdown();
  if (growth.has_grown()) {
    std::printf("the process has grown\n");
    return 1;
  }
  std::printf("done: alone\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how != "kernel" && how != "init" && how != "captured") return 64;
  try {
    share_gpu_if_asked();
    return run(how, argc > 2 && std::string(argv[2]) == "--cpu");
  } catch (const std::exception& error) {
    std::printf("elastic_check: %s\n", error.what());
    return 1;
  }
}
