// The same with gloo itself, over TCP on loopback: Debian's gloo has no other transport for ranks
// of one machine. Started by hvdrun; the ranks meet in the empty folder HVD_BENCH_FOLDER.
//
// HVD_BENCH_GLOO chooses among what gloo offers:
//   functions  gloo::allreduce with its ring, gloo::broadcast and so on
//   bcube      gloo::allreduce with that algorithm
//   classes    the algorithm classes of gloo's own benchmark, such as AllreduceHalvingDoubling
//   polling    these, with --sync --busy-poll of that benchmark: no thread for the sockets, and the
//              caller asks them again and again; two ranks that send each other more than the
//              sockets hold wait forever
// Its reductions get a loop that is compiled for AVX2 as well, which Debian's build of gloo is not.
#include <functional>
#include <memory>
#include <stdexcept>

#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "tests/bench/collective_timing.h"

namespace {

__attribute__((target_clones("avx2", "default"))) void add(float* to, const float* from,
                                                           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

__attribute__((target_clones("avx2", "default"))) void add_two(float* to, const float* one,
                                                               const float* two,
                                                               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = one[i] + two[i];
}

void add_any(void* to, const void* one, const void* two, std::size_t count) {
  add_two(static_cast<float*>(to), static_cast<const float*>(one), static_cast<const float*>(two),
          count);
}

const gloo::ReductionFunction<float>* sum() {
  static const gloo::ReductionFunction<float> function(gloo::SUM, add);
  return &function;
}

// Between hosts the launcher says which.
const char* address_of_this_host() {
  const char* const address = std::getenv("HVD_HOST_ADDRESS");
  return address != nullptr ? address : "127.0.0.1";
}

class Gloo final : public Collectives {
 public:
  Gloo(int rank, int size, const std::string& folder, const std::string& setting)
      : store_(folder),
        device_(gloo::transport::tcp::CreateDevice(address_of_this_host())),
        classes_(setting == "classes" || setting == "polling"),
        algorithm_(setting == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                      : gloo::AllreduceOptions::Algorithm::RING),
        context_(connect("functions", rank, size)) {
    if (!classes_) return;
    // One of their own: the functions cannot use a connection that is polled.
    class_context_ = connect("classes", rank, size);
    for (int other = 0; setting == "polling" && other < size; ++other) {
      if (other != rank) class_context_->getPair(other)->setSync(true, true);
    }
  }

  int rank() override { return context_->rank; }
  int size() override { return context_->size; }
  float* allocate(std::size_t count) override {
    return static_cast<float*>(std::aligned_alloc(4096, (count / 1024 + 1) * 4096));
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void max(double* values, std::size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(gloo::max<double>));
    gloo::allreduce(options);
  }

  // A program calls one of these, always with the same arguments: what is made of them once, gloo
  // may use again.
  void allreduce(float* data, std::size_t count) override {
    if (classes_) {
      run_class([&] {
        return new gloo::AllreduceHalvingDoubling<float>(class_context_, {data},
                                                         static_cast<int>(count), sum());
      });
      return;
    }
    run<gloo::AllreduceOptions>(gloo::allreduce, [&](gloo::AllreduceOptions& options) {
      options.setAlgorithm(algorithm_);
      options.setOutput(data, count);
      options.setReduceFunction(add_any);
    });
  }
  void broadcast(float* data, std::size_t count) override {
    if (classes_) {
      run_class([&] {
        return new gloo::BroadcastOneToAll<float>(class_context_, std::vector<float*>{data}, count);
      });
      return;
    }
    run<gloo::BroadcastOptions>(gloo::broadcast, [&](gloo::BroadcastOptions& options) {
      options.setRoot(0);
      options.setOutput(data, count);
    });
  }
  void allgather(const float* part, float* all, std::size_t count) override {
    if (classes_) {
      run_class([&] {
        return new gloo::AllgatherRing<float>(class_context_, std::vector<const float*>{part}, all,
                                              static_cast<int>(count));
      });
      return;
    }
    run<gloo::AllgatherOptions>(gloo::allgather, [&](gloo::AllgatherOptions& options) {
      options.setInput(const_cast<float*>(part), count);
      options.setOutput(all, count * static_cast<std::size_t>(size()));
    });
  }
  // gloo has only the class ReduceScatterHalvingDoubling for it. That one moves its result to the
  // beginning of the buffer without waiting until what stood there is sent: at two ranks 16 MiB
  // gave wrong sums.
  void reducescatter(const float*, float*, std::size_t) override {
    throw std::logic_error("gloo has no reduce-scatter that is right");
  }
  void alltoall(const float* from, float* to, std::size_t count) override {
    const std::size_t whole = count * static_cast<std::size_t>(size());
    run<gloo::AlltoallOptions>(gloo::alltoall, [&](gloo::AlltoallOptions& options) {
      options.setInput(const_cast<float*>(from), whole);
      options.setOutput(to, whole);
    });
  }

 private:
  std::shared_ptr<gloo::Context> connect(const char* name, int rank, int size) {
    gloo::rendezvous::PrefixStore store(name, store_);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device_);
    return context;
  }

  template <class Options, class Function, class Fill>
  void run(Function function, Fill fill) {
    if (!operation_) {
      auto options = std::make_shared<Options>(context_);
      fill(*options);
      operation_ = [options, function] { function(*options); };
    }
    operation_();
  }

  template <class Make>
  void run_class(Make make) {
    if (!operation_) {
      const std::shared_ptr<gloo::Algorithm> algorithm(make());
      operation_ = [algorithm] { algorithm->run(); };
    }
    operation_();
  }

  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::transport::Device> device_;
  const bool classes_;
  const gloo::AllreduceOptions::Algorithm algorithm_;
  std::shared_ptr<gloo::Context> context_;
  std::shared_ptr<gloo::Context> class_context_;
  std::function<void()> operation_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* const rank = std::getenv("HVD_RANK");
  const char* const size = std::getenv("HVD_SIZE");
  const char* const folder = std::getenv("HVD_BENCH_FOLDER");
  const char* const setting = std::getenv("HVD_BENCH_GLOO");
  if (rank == nullptr || size == nullptr || folder == nullptr || setting == nullptr) {
    std::fprintf(stderr, "run me with hvdrun, HVD_BENCH_FOLDER and HVD_BENCH_GLOO\n");
    return 64;
  }
  Gloo collectives(std::atoi(rank), std::atoi(size), folder, setting);
  const int code = time_collective(collectives, argc, argv);
  if (code == 0) collectives.barrier();  // nobody's connections go while another needs them
  return code;
}
