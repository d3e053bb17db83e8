// elastic_probe STEPS [MS] [FAULT SLOT STEP]: adds up a state over the ranks, a commit after each
// step, and goes on when ranks are lost. FAULT is what the first process of the slot does in that
// step:
//
//   kill    SIGKILL           exit0   ends with 0, without a goodbye     stop   SIGSTOP
//   exit3   ends with code 3  always  SIGKILL of each process of the slot
//   exec    runs sleep        fork    leaves a child behind, and ends with code 3
//   core    SIGSEGV with 1 GiB for its core file
//   other   SIGKILL; the slot's later processes are of another program, with another state
//
// elastic_probe until FILE MS: the same without faults, until there is such a file.
//
//   early   SIGKILL; the slot's later processes call a collective before elastic::run
//   slow    SIGKILL; they sleep for two seconds before it
//   desert  SIGKILL; later all whose work counts do the same in the first step of one that is new
//
// With PROBE_OVERLAP=BYTES in the environment new ranks get the state, which has so many bytes
// more, while the others train. It must arrive as it was sent.
//
// "again" is no fault: all ranks train, and call shutdown() and init() before the end.
//
// "step N rank R of S: V" after each step, where V must be N: what every rank that counts has added
// is averaged.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <hvd/elastic_run.h>

namespace {

int number_of(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

void fail(const std::string& fault) {
  if (fault == "kill" || fault == "always" || fault == "other" || fault == "early" ||
      fault == "slow" || fault == "desert")
    ::kill(::getpid(), SIGKILL);
  if (fault == "stop") ::kill(::getpid(), SIGSTOP);
  if (fault == "exit0") std::_Exit(0);
  if (fault == "exit3") std::_Exit(3);
  if (fault == "exec") ::execl("/bin/sleep", "sleep", "60", nullptr);
  if (fault == "fork") {
    if (::fork() != 0) std::_Exit(3);
    ::sleep(60);
  }
  if (fault == "core") {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_CORE, &all);
    const std::vector<char> touched(1U << 30, 'x');
    ::kill(::getpid(), SIGSEGV);
    while (!touched.empty()) ::pause();
  }
}

// A block's bytes tell its place and the step. By blocks, as builds without optimization and with
// sanitizers take seconds for each byte of a large state on its own.
constexpr std::size_t kBlock = 4096;

int byte_of(std::size_t block, int step) {
  return static_cast<unsigned char>(block * 7 + static_cast<std::size_t>(step));
}

void mark(std::vector<char>& bytes, int step) {
  for (std::size_t at = 0; at < bytes.size(); at += kBlock)
    std::memset(&bytes[at], byte_of(at / kBlock, step), std::min(kBlock, bytes.size() - at));
}

bool holds(const std::vector<char>& bytes, int step) {
  std::array<char, kBlock> wanted{};
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, bytes.size() - at);
    std::memset(wanted.data(), byte_of(at / kBlock, step), count);
    if (std::memcmp(&bytes[at], wanted.data(), count) != 0) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return 64;
  const bool until = words[0] == "until" && words.size() > 2;
  const int steps = until ? 1'000'000 : std::stoi(words[0]);
  const int pause = until ? std::stoi(words[2]) : words.size() > 1 ? std::stoi(words[1]) : 0;
  const int slot = number_of("HVD_RANK");
  const bool is_first = number_of("HVD_START") == 0;
  hvd::init();
  std::vector<double> value(1000, 0.0);
  int step = 0;
  hvd::elastic::MemoryState state;
  state.add("value", value.data(), value.size() * sizeof(double)).add("step", step);
  const int more = number_of("PROBE_OVERLAP");
  std::vector<char> ballast(static_cast<std::size_t>(more), 0);
  if (is_first) mark(ballast, 0);
  if (more > 0) state.add("ballast", ballast.data(), ballast.size());
  if (!is_first && words.size() > 2 && words[2] == "early") hvd::barrier();
  if (!is_first && words.size() > 2 && words[2] == "slow") {
    std::printf("new: rank %d of %d on GPU %d\n", hvd::rank(), hvd::size(), hvd::gpu());
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  hvd::elastic::RunOptions options;
  options.overlap = more > 0;
  int stranger = 0;
  if (!is_first && words.size() > 2 && words[2] == "other") state.add("stranger", stranger);
  int met = 0;
  hvd::elastic::run(
      state,
      [&] {
        std::printf("meeting %d at step %d: rank %d of %d\n", met++, step, hvd::rank(),
                    hvd::size());
        std::fflush(stdout);
        bool over = false;
        while (step < steps && !over) {
          const bool counts = hvd::elastic::contributor_rank() >= 0;
          if (!counts)
            std::printf("new: rank %d counts nothing in step %d\n", hvd::rank(), step + 1);
          const double ranks = hvd::elastic::contributors();
          if (counts && ranks < hvd::size() && words.size() > 2 && words[2] == "desert")
            fail(words[2]);
          std::vector<double> one(value.size(), counts ? 1.0 : 0.0);
          const bool faulty = words.size() > 4 && std::stoi(words[3]) == slot &&
                              std::stoi(words[4]) == step && (is_first || words[2] == "always");
          if (faulty) fail(words[2]);
          hvd::allreduce(one.data(), one.data(), one.size(), hvd::ReduceOp::sum);
          hvd::elastic::catch_up();
          for (std::size_t i = 0; i < value.size(); ++i) value[i] += one[i] / ranks;
          ++step;
          if (more > 0) {
            if (!holds(ballast, step - 1))
              std::printf("rank %d has another state in step %d\n", hvd::rank(), step);
            mark(ballast, step);
          }
          if (until) {
            // All see it in the same step.
            double there = ::access(words[1].c_str(), F_OK) == 0 ? 1 : 0;
            hvd::allreduce(&there, &there, 1, hvd::ReduceOp::max);
            over = there > 0;
          }
          std::printf("step %d rank %d of %d: %g\n", step, hvd::rank(), hvd::size(), value[7]);
          std::fflush(stdout);
          state.commit();
          if (pause > 0) std::this_thread::sleep_for(std::chrono::milliseconds(pause));
        }
      },
      options);
  if (words.size() > 2 && words[2] == "again") {
    hvd::shutdown();
    hvd::init();
    std::printf("again: rank %d of %d\n", hvd::rank(), hvd::size());
  }
  const bool right = value[7] == (until ? step : steps);
  std::printf("done: rank %d of %d has %g\n", hvd::rank(), hvd::size(), value[7]);
  hvd::shutdown();
  return right ? 0 : 1;
}
