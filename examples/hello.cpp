// g++ -std=c++17 hello.cpp $(pkg-config --cflags --libs hvd) -o hello && hvdrun -np 4 ./hello
#include <cstdio>

#include <hvd/hvd.h>

int main() {
  hvd::init();
  float sum = 1.0F + static_cast<float>(hvd::rank());
  hvd::allreduce(&sum, &sum, 1, hvd::ReduceOp::sum);
  std::printf("rank %d of %d, local rank %d: the sum over all ranks is %g\n", hvd::rank(),
              hvd::size(), hvd::local_rank(), static_cast<double>(sum));
  hvd::shutdown();
}
