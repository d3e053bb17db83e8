// A worker that does what its first argument says; for the tests beside it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <hvd/hvd.h>

namespace {

// Allreduces without end until one fails; prints how long the failing call took.
int loop_until_error() {
  std::vector<float> data(1 << 16, 1.0F);
  if (hvd::rank() == 0) {
    std::puts("looping");
    std::fflush(stdout);
  }
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      hvd::allreduce(data.data(), data.data(), data.size());
    } catch (const hvd::Error& e) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - begin);
      std::printf("error after %lld ms: %s\n", static_cast<long long>(ms.count()), e.what());
      std::fflush(stdout);
      // Stay: the launcher, not the error, is to end this process.
      for (;;) ::pause();
    }
  }
}

int collectives() {
  const int rank = hvd::rank();
  const int size = hvd::size();
  std::vector<std::int64_t> data(100'000, rank + 1);
  hvd::allreduce(data.data(), data.data(), data.size(), hvd::ReduceOp::sum);
  if (data.front() != size * (size + 1) / 2 || data.back() != data.front()) return 10;
  std::vector<double> all(static_cast<std::size_t>(size) * 3);
  const std::vector<double> mine(3, rank);
  hvd::allgather(mine.data(), all.data(), 3);
  for (int r = 0; r < size; ++r)
    if (all[static_cast<std::size_t>(r) * 3 + 2] != r) return 11;
  float root = static_cast<float>(rank);
  hvd::broadcast(&root, 1, size - 1);
  if (root != static_cast<float>(size - 1)) return 12;
  std::vector<float> async(1000, static_cast<float>(rank));
  const hvd::Handle handle = hvd::allreduce_async(async.data(), async.data(), async.size());
  hvd::synchronize(handle);
  if (async[999] != static_cast<float>(size - 1) / 2) return 13;
  hvd::barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "before-init") {
      std::puts("before init");
      std::fflush(stdout);
      for (;;) ::pause();
    }
    if (what == "early-exit" && std::strcmp(std::getenv("HVD_RANK"), "1") == 0) return 0;
    hvd::init();
    int code = 0;
    if (what == "loop") code = loop_until_error();
    if (what == "collectives") code = collectives();
    if (what == "again") {
      hvd::shutdown();
      hvd::init();
      code = collectives();
    }
    if (what == "exit-early" && hvd::rank() == 1) return 0;  // without shutdown
    if (what == "exit-early") hvd::barrier();
    hvd::shutdown();
    if (what == "linger") {
      std::puts("shut down");
      std::fflush(stdout);
      ::usleep(20'000U * static_cast<unsigned>(std::atoi(std::getenv("HVD_RANK"))));
    }
    return code;
  } catch (const hvd::Error& e) {
    std::printf("hvd::Error: %s\n", e.what());
    return 9;
  }
}
