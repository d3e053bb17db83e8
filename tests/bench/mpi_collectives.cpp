// The same with MPI.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "tests/bench/collective_timing.h"

struct Mpi final : Collectives {
  int rank() override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  int size() override {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }
  float* allocate(std::size_t count) override {
    return static_cast<float*>(std::aligned_alloc(4096, (count / 1024 + 1) * 4096));
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void max(double* values, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
  }
  void allreduce(float* data, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void broadcast(float* data, std::size_t count) override {
    MPI_Bcast(data, static_cast<int>(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  void allgather(const float* part, float* all, std::size_t count) override {
    const int n = static_cast<int>(count);
    MPI_Allgather(part, n, MPI_FLOAT, all, n, MPI_FLOAT, MPI_COMM_WORLD);
  }
  void reducescatter(const float* all, float* part, std::size_t count) override {
    MPI_Reduce_scatter_block(all, part, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
  }
  void alltoall(const float* from, float* to, std::size_t count) override {
    const int n = static_cast<int>(count);
    MPI_Alltoall(from, n, MPI_FLOAT, to, n, MPI_FLOAT, MPI_COMM_WORLD);
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Mpi collectives;
  const int code = time_collective(collectives, argc, argv);
  MPI_Finalize();
  return code;
}
