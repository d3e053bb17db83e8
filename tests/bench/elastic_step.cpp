// elastic_step STATE TOUCHED STEPS: steps of a small allreduce, a commit of STATE bytes after each
// STEPS of them, for ever. Slot 1 touches TOUCHED bytes first, which the kernel has to free when it
// is killed.
//
// elastic_step STATE TOUCHED STEPS overlap|first MS: the same; new ranks get the state while all
// train, or before. A step takes MS more, as one that computes.
//
// elastic_step commits: the time of a commit of next to nothing, "commit: NS", and the end.
//
//   pid P slot S                    at the start
//   ready: step NS                  rank 0 of the first epoch, when a step's time is known
//   slot S went on at NS copied NS  after the first step of a later epoch in which none have come;
//                                   NS is the time of CLOCK_MONOTONIC, and that of a copy that all
//                                   take at once
//   slot S took NS for two steps    where ranks have come: from the end of its last allreduce in
//                                   the epoch before to that of the second one in the new one
//   broadcast: NS                   then, rank 0: the state from rank 0 to all
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <hvd/elastic_run.h>

namespace {

long long now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Has the kernel read and write each page of this process. In some virtual machines its first
// access to a page takes 10 us, which makes a socket's copy ten times as slow. That is not what is
// measured.
void show_to_kernel() {
  constexpr std::size_t kPages = 1024;  // of an iovec, and the bytes that a pipe holds in any case
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  std::vector<iovec> pages;
  pages.reserve(kPages);
  const auto pass = [&] {
    const auto count = static_cast<int>(pages.size());
    const ssize_t wrote = count > 0 ? ::writev(ends[1], pages.data(), count) : 0;
    if (wrote < count || ::readv(ends[0], pages.data(), count) < count)
      std::printf("pages could not be shown to the kernel\n");
    pages.clear();
  };
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx rw-p", &begin, &end) == 2 &&
        line.find("rw-p") != line.npos && line.find("[stack]") == line.npos)
      ranges.emplace_back(begin, end);
  }
  for (const auto& [begin, end] : ranges) {
    for (std::uintptr_t page = begin; page < end; page += 4096) {
      pages.push_back({reinterpret_cast<void*>(page), 1});
      if (pages.size() == kPages) pass();
    }
    pass();
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

// As the ranks go back to their last commit after a loss.
long long copy_of(std::vector<char>& state) {
  static const std::vector<char> commit(state);
  hvd::barrier();
  const long long begin = now_ns();
  std::copy(commit.begin(), commit.end(), state.begin());
  return now_ns() - begin;
}

// The wait of all without a first step of its own. Once, as memory that nobody has used for
// a while is slower the first time.
void time_broadcast(std::vector<char>& state) {
  hvd::barrier();
  const long long begin = now_ns();
  hvd::broadcast(state.data(), state.size(), hvd::DataType::uint8);
  hvd::barrier();
  if (hvd::rank() == 0) std::printf("broadcast: %lld\n", now_ns() - begin);
}

int number_of(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

// The price of a commit in an elastic job, beyond its copy.
int time_commits() {
  constexpr int kCommits = 5000;
  hvd::init();
  long long kept = 0;
  hvd::elastic::MemoryState state;
  state.add("kept", kept);
  hvd::elastic::run(state, [&] {
    for (int i = 0; i < kCommits; ++i) state.commit();
    const long long begin = now_ns();
    for (int i = 0; i < kCommits; ++i) state.commit();
    if (hvd::rank() == 0) std::printf("commit: %lld\n", (now_ns() - begin) / kCommits);
  });
  hvd::shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "commits") return time_commits();
  if (argc != 4 && argc != 6) return 64;
  std::vector<char> state(std::stoull(argv[1]), 1);
  std::vector<char> touched(number_of("HVD_RANK") == 1 ? std::stoull(argv[2]) : 0, 1);
  std::printf("pid %d slot %d\n", static_cast<int>(::getpid()), number_of("HVD_RANK"));
  std::fflush(stdout);
  // A new process loads its libraries meanwhile; what its coming costs is another figure.
  if (number_of("HVD_START") > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  hvd::elastic::MemoryState kept;
  long long steps = 0;
  kept.add("state", state.data(), state.size()).add("steps", steps);
  show_to_kernel();
  hvd::init();
  hvd::elastic::RunOptions options;
  options.overlap = argc == 6 && argv[4] == std::string("overlap");
  const std::chrono::milliseconds compute(argc == 6 ? std::stoi(argv[5]) : 0);
  const std::size_t known = compute.count() > 100 ? 6 : 50;  // steps, until one's time is known
  int ranks = 0;
  long long last_end = 0;
  const auto train = [&] {
    std::vector<double> values(1000, 1.0);
    std::vector<long long> times;
    hvd::elastic::CommitEvery commits(kept, std::stoi(argv[3]));
    const bool first = steps == 0;
    const bool some_came = std::exchange(ranks, hvd::size()) < hvd::size();
    const long long left_at = last_end;
    for (;;) {
      const long long begin = now_ns();
      std::this_thread::sleep_for(compute);
      hvd::allreduce(values.data(), values.data(), values.size(), hvd::ReduceOp::average);
      last_end = now_ns();
      hvd::elastic::catch_up();
      if (times.size() == 1 && !first && some_came) {
        if (left_at > 0)
          std::printf("slot %d took %lld for two steps\n", number_of("HVD_RANK"),
                      last_end - left_at);
        time_broadcast(state);
      }
      ++steps;
      commits.on_batch_end();
      times.push_back(now_ns() - begin);
      if (times.size() == 1 && !first && !some_came) {
        const long long at = now_ns();
        std::printf("slot %d went on at %lld copied %lld\n", number_of("HVD_RANK"), at,
                    copy_of(state));
      }
      if (times.size() == known && first && hvd::rank() == 0) {
        const auto middle = times.begin() + static_cast<std::ptrdiff_t>(known / 2);
        std::nth_element(times.begin(), middle, times.end());
        std::printf("ready: step %lld\n", *middle);
      }
      std::fflush(stdout);
    }
  };
  hvd::elastic::run(kept, train, options);
  return touched.empty() ? 0 : touched.front();
}
