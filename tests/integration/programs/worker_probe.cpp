// A worker that does what its first argument says; for the tests beside it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <hvd/hvd.h>

namespace {

// Allreduces without end until one fails; prints how long the failing call took.
int loop_until_error() {
  std::vector<float> data(1 << 16, 1.0F);
  for (bool have_met = false;; have_met = true) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      if (!have_met) {
        // All have left hvd::init. Some may still be here when rank 0 goes on.
        hvd::barrier();
        if (hvd::rank() == 0) {
          std::puts("looping");
          std::fflush(stdout);
        }
      }
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

// The operations that give each rank a part of its own.
int scattered(int rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto self = static_cast<std::size_t>(rank);
  // Rank r has r + 1 elements.
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) total += counts.emplace_back(r + 1);
  const std::vector<std::int16_t> part(counts[self], static_cast<std::int16_t>(rank));
  std::vector<std::int16_t> all(total);
  hvd::allgatherv(part.data(), all.data(), counts.data(), hvd::DataType::int16);
  if (all.front() != 0 || all.back() != size - 1) return 20;
  std::vector<std::int16_t> sum(counts[self]);
  hvd::reducescatterv(all.data(), sum.data(), counts.data(), hvd::DataType::int16,
                      hvd::ReduceOp::sum);
  for (const std::int16_t value : sum)
    if (value != rank * size) return 21;
  std::vector<float> even(ranks, static_cast<float>(rank));
  float largest = 0;
  hvd::reducescatter(even.data(), &largest, 1, hvd::ReduceOp::max, {2.0, 1.0});
  if (largest != static_cast<float>(2 * (size - 1))) return 22;
  std::vector<float> from(ranks);
  hvd::alltoall(even.data(), from.data(), 1);
  for (int r = 0; r < size; ++r)
    if (from[static_cast<std::size_t>(r)] != static_cast<float>(r)) return 23;
  // Rank r sends r + 1 elements to each; asynchronously, with a wait.
  const std::vector<std::size_t> send(ranks, self + 1);
  const std::vector<std::uint8_t> bytes(ranks * (self + 1), static_cast<std::uint8_t>(rank));
  std::vector<std::uint8_t> received(total);
  const hvd::Handle handle = hvd::alltoallv_async(bytes.data(), send.data(), received.data(),
                                                  counts.data(), hvd::DataType::uint8);
  if (!hvd::wait(handle, std::chrono::seconds(20)) || !hvd::poll(handle)) return 24;
  hvd::synchronize(handle);
  if (received.front() != 0 || received.back() != size - 1) return 25;
  bool any = rank == size - 1;
  hvd::allreduce(&any, &any, 1, hvd::ReduceOp::max);
  return any ? 0 : 26;
}

// The number of segments that this process has mapped.
int mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:hvdrun") != std::string::npos) ++count;
  return count;
}

// Buffers in hvd::alloc memory, made and freed again and again: the bits are those of the heap.
int shared_memory() {
  constexpr std::size_t kCount = 300'000;
  const std::size_t bytes = kCount * sizeof(float);
  std::vector<float> heap(kCount);
  for (int round = 0; round < 30; ++round) {
    auto* const input = static_cast<float*>(hvd::alloc(bytes));
    auto* const output = static_cast<float*>(hvd::alloc(bytes));
    for (std::size_t i = 0; i < kCount; ++i)
      input[i] = 1.0F / static_cast<float>(i + 1 + static_cast<std::size_t>(hvd::rank()));
    hvd::allreduce(input, heap.data(), kCount);
    hvd::allreduce(input, output, kCount);
    if (std::memcmp(heap.data(), output, bytes) != 0) return 30;
    hvd::broadcast(output, kCount, hvd::size() - 1);
    hvd::free(input);
    hvd::free(output);
    // Own ones, the communicator's, and of each peer at most those of this round and the last.
    if (mapped_segments() > 1 + 2 + 4 * (hvd::size() - 1)) return 31;
  }
  try {
    hvd::free(heap.data());
    return 32;
  } catch (const hvd::Error&) {
    hvd::free(nullptr);
  }
  return 0;
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
  std::vector<int> local_sizes(static_cast<std::size_t>(size));
  const int local_size = hvd::local_size();
  hvd::allgather(&local_size, local_sizes.data(), 1);
  const bool alike = std::all_of(local_sizes.begin(), local_sizes.end(),
                                 [&](int one) { return one == local_sizes.front(); });
  if (hvd::is_homogeneous() != alike) return 14;
  if (const int code = scattered(rank, size)) return code;
  if (const int code = shared_memory()) return code;
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
