// The collectives of libhvd, on memory of HVD_BENCH_MEMORY: alloc or heap.
#include <hvd/hvd.h>

#include "tests/bench/collective_timing.h"

struct Hvd final : Collectives {
  int rank() override { return hvd::rank(); }
  int size() override { return hvd::size(); }
  float* allocate(std::size_t count) override {
    const char* const memory = std::getenv("HVD_BENCH_MEMORY");
    const bool shared = memory != nullptr && std::strcmp(memory, "alloc") == 0;
    return static_cast<float*>(shared ? hvd::alloc(count * sizeof(float))
                                      : std::aligned_alloc(4096, (count / 1024 + 1) * 4096));
  }
  void barrier() override { hvd::barrier(); }
  void max(double* values, std::size_t count) override {
    hvd::allreduce(values, values, count, hvd::ReduceOp::max);
  }
  void allreduce(float* data, std::size_t count) override {
    hvd::allreduce(data, data, count, hvd::ReduceOp::sum);
  }
  void broadcast(float* data, std::size_t count) override { hvd::broadcast(data, count); }
  void allgather(const float* part, float* all, std::size_t count) override {
    hvd::allgather(part, all, count);
  }
  void reducescatter(const float* all, float* part, std::size_t count) override {
    hvd::reducescatter(all, part, count, hvd::ReduceOp::sum);
  }
  void alltoall(const float* from, float* to, std::size_t count) override {
    hvd::alltoall(from, to, count);
  }
};

int main(int argc, char** argv) {
  hvd::init();
  Hvd collectives;
  const int code = time_collective(collectives, argc, argv);
  hvd::shutdown();
  return code;
}
