// Times one collective the same way with every library: a program gives the operations, this the
// rounds. Prints the median over the rounds of the slowest rank's seconds, or why there is none.
//
//   PROGRAM OPERATION BYTES ROUNDS
//
// Rounds that do not count come first, for a tenth of a second: where ranks share cores, it takes
// the scheduler that long to spread them. Then up to ROUNDS, fewer when they take too long.
//
// BYTES is a rank's buffer: the whole of an allreduce or broadcast, of an allgather the output, of
// a reducescatter and alltoall the input. It is rewritten before every round, and the result
// checked.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Collectives {
  virtual ~Collectives() = default;
  virtual int rank() = 0;
  virtual int size() = 0;
  virtual float* allocate(std::size_t count) = 0;
  virtual void barrier() = 0;
  virtual void max(double* values, std::size_t count) = 0;
  // Sums of floats, not averages; counts are those of one rank's part.
  virtual void allreduce(float* data, std::size_t count) = 0;
  virtual void broadcast(float* data, std::size_t count) = 0;
  virtual void allgather(const float* part, float* all, std::size_t count) = 0;
  virtual void reducescatter(const float* all, float* part, std::size_t count) = 0;
  virtual void alltoall(const float* from, float* to, std::size_t count) = 0;
};

// Small whole numbers: every order of additions gives the same sum.
inline float element(int rank, int round, std::size_t index) {
  return static_cast<float>(
      (static_cast<std::size_t>(rank) * 7 + static_cast<std::size_t>(round) + index) % 16);
}

inline int fail(const char* what) {
  std::fprintf(stderr, "wrong result of %s\n", what);
  return 1;
}

// The least that an allreduce must move: each rank reads and writes as much as a buffer has.
#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
inline void
rewrite(float* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] = data[i] * 0.5F + 1.0F;
}

// True: every rank has taken that long since `begin`.
inline bool passed(Collectives& c, std::chrono::steady_clock::time_point begin, double seconds) {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  double early = taken.count() < seconds ? 1 : 0;
  c.max(&early, 1);
  return early == 0;
}

inline int time_collective(Collectives& c, int argc, char** argv) {
  if (argc != 4) return 64;
  const std::string operation = argv[1];
  const auto ranks = static_cast<std::size_t>(c.size());
  const std::size_t count = std::strtoull(argv[2], nullptr, 10) / sizeof(float);
  const std::size_t part = std::max<std::size_t>(count / ranks, 1);
  const std::size_t rounds = std::strtoull(argv[3], nullptr, 10);
  const bool two = operation != "allreduce" && operation != "broadcast" && operation != "floor" &&
                   operation != "instructions";
  const std::size_t whole = two ? part * ranks : count;
  float* const input = c.allocate(whole);
  if (operation == "instructions") {  // for a count of them: nothing but allreduces of zeros
    std::fill_n(input, count, 0.0F);
    for (std::size_t round = 0; round < rounds; ++round) c.allreduce(input, count);
    return 0;
  }
  float* const output = two ? c.allocate(whole) : input;
  constexpr double kWarmUp = 0.1;
  constexpr double kLimit = 1.5;
  constexpr std::size_t kFewest = 7;
  std::vector<double> seconds;
  bool warm = false;
  auto start = std::chrono::steady_clock::now();
  for (int round = 0; seconds.size() < rounds; ++round) {
    if (!warm && round >= 2 && passed(c, start, kWarmUp)) {
      warm = true;
      start = std::chrono::steady_clock::now();
    }
    // Asked seldom: asking is a collective itself.
    if (seconds.size() >= kFewest && round % 16 == 0 && passed(c, start, kLimit)) break;
    for (std::size_t i = 0; i < whole; ++i) input[i] = element(c.rank(), round, i);
    c.barrier();
    const auto begin = std::chrono::steady_clock::now();
    if (operation == "allreduce") c.allreduce(input, count);
    if (operation == "broadcast") c.broadcast(input, count);
    if (operation == "allgather") c.allgather(input, output, part);
    if (operation == "reducescatter") c.reducescatter(input, output, part);
    if (operation == "alltoall") c.alltoall(input, output, part);
    if (operation == "floor") {
      rewrite(input, whole);
      c.barrier();  // on a shared core another's part is waited for, too
    }
    const auto end = std::chrono::steady_clock::now();
    // On a shared core a rank that is through would check and fill. Meanwhile another waits for the
    // core to see that it is through as well.
    c.barrier();
    if (warm) seconds.push_back(std::chrono::duration<double>(end - begin).count());
    if (operation == "floor") continue;
    // A sample of the elements, the last one too.
    const std::size_t results = operation == "reducescatter" ? part : whole;
    const std::size_t step = std::max<std::size_t>(results / 997, 1);
    for (std::size_t i = results; i > 0; i -= std::min(i, step)) {
      const std::size_t at = i - 1;
      float want = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto rank = static_cast<int>(r);
        if (operation == "allreduce") want += element(rank, round, at);
        if (operation == "reducescatter")
          want += element(rank, round, at + part * static_cast<std::size_t>(c.rank()));
      }
      if (operation == "broadcast") want = element(0, round, at);
      if (operation == "allgather") want = element(static_cast<int>(at / part), round, at % part);
      if (operation == "alltoall")
        want = element(static_cast<int>(at / part), round,
                       at % part + part * static_cast<std::size_t>(c.rank()));
      if (output[at] != want) return fail(operation.c_str());
    }
  }
  c.max(seconds.data(), seconds.size());
  std::sort(seconds.begin(), seconds.end());
  if (c.rank() == 0) std::printf("%.9f\n", seconds[seconds.size() / 2]);
  return 0;
}
