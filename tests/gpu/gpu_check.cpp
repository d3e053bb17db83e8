// The GPU tests: each starts its ranks as processes of this program. Without a GPU the last line is
// "no GPU: why", and the exit code 77. No Catch2: a machine with a GPU may have no packages.
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/gpu/check_rank.h"
#include "tests/gpu/public_api.h"
#include "tests/gpu/shared_gpu.h"
#include "tests/gpu/sudden_end.h"
#include "worker/hvd/gpu/gpu_device.h"
#include "worker/hvd/gpu/kernels.h"

extern char** environ;

namespace {

using namespace hvdrun;
using namespace hvdrun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kSkipped = 77;

struct Test {
  const char* name;
  const char* what;
  int size;
};
constexpr std::array kTests{
    Test{"all collectives, one rank", "conformance", 1},
    Test{"all collectives, two ranks", "conformance", 2},
    Test{"all collectives, four ranks", "conformance", 4},
    Test{"our own kernels", "kernels", 1},
    Test{"the public API, one rank", "public-api", 1},
    Test{"a rank that takes no part after one operation is told in time, and the GPU is free",
         "abort-met", 2},
    Test{"a rank that takes no part in the first operation is told in time, and the GPU is free",
         "abort-not-met", 2},
    Test{"a rank that dies is an error", "peer", 2},
};

std::vector<std::string> environment_of(int rank, bool shared) {
  std::vector<std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  if (!shared) return env;
  for (const auto& [name, value] : shared_gpu_environment(std::to_string(rank)))
    env.push_back(name + "=" + value);
  return env;
}

pid_t start(const std::string& what, int size, int rank, const std::string& id_file, bool shared) {
  std::vector<std::string> words{"/proc/self/exe",     "--rank", std::to_string(rank),
                                 std::to_string(size), what,     id_file};
  std::vector<std::string> env = environment_of(rank, shared);
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : env) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t pid = -1;
  if (::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), envp.data()) != 0)
    return -1;
  return pid;
}

// True: all ranks have ended with 0 within five minutes.
bool run(const Test& test, const fs::path& folder, bool shared) {
  const std::string id_file =
      (folder / (std::string(test.what) + std::to_string(test.size))).string();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < test.size; ++rank)
    ranks.push_back(start(test.what, test.size, rank, id_file, shared));
  const auto deadline = std::chrono::steady_clock::now() + 5min;
  bool good = true;
  for (const pid_t pid : ranks) {
    int status = -1;
    while (pid > 0 && ::waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) ::kill(pid, SIGKILL);
      std::this_thread::sleep_for(10ms);
    }
    good = good && pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

// True: every rank ends as it should, at ten moments: from the driver's start to steps in graphs.
bool run_sudden_ends(int size, const fs::path& folder, bool shared) {
  constexpr int kMoments = 10;
  constexpr int kEveryMs = 150;
  bool good = true;
  for (const SuddenEnd& end : kSuddenEnds)
    for (int moment = 0; moment < kMoments; ++moment) {
      const std::string what =
          std::string(kSuddenEnd) + end.how + ":" + std::to_string(20 + moment * kEveryMs);
      const std::string id_file = (folder / (what + std::to_string(size))).string();
      std::vector<pid_t> ranks;
      for (int rank = 0; rank < size; ++rank)
        ranks.push_back(start(what, size, rank, id_file, shared));
      const auto deadline = std::chrono::steady_clock::now() + 30s;
      for (const pid_t pid : ranks) {
        int status = -1;
        while (pid > 0 && ::waitpid(pid, &status, WNOHANG) == 0) {
          if (std::chrono::steady_clock::now() > deadline) ::kill(pid, SIGKILL);
          std::this_thread::sleep_for(1ms);
        }
        const std::string ended = pid > 0 ? end_text(status) : "not started";
        if (ended == end.wanted) continue;
        std::printf("%s: %s, not %s\n", what.c_str(), ended.c_str(), end.wanted);
        good = false;
      }
    }
  return good;
}

int run_all() {
  int devices = 0;
  {
    const auto driver = load_cuda_driver();
    if (!driver.value) {
      std::printf("no GPU: %s\n", driver.why.c_str());
      return kSkipped;
    }
    devices = driver.value->devices;
    std::printf("driver for CUDA %s, %d GPU(s)\n", cuda_version_text(driver.value->version).c_str(),
                devices);
    const GpuDevice first(*driver.value, 0);
    std::printf("%s\n", first.words().c_str());
  }
  const char* const file = std::getenv(kNcclLibraryVariable);
  const auto nccl = load_nccl(file != nullptr ? file : "");
  if (!nccl.value) {
    std::printf("no GPU: %s\n", nccl.why.c_str());
    return kSkipped;
  }
  std::printf("NCCL %s, %s\n", nccl_version_text(nccl.value->version).c_str(),
              nccl.value->path.c_str());
  std::string pattern = (fs::temp_directory_path() / "hvd-gpu-check-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  int passed = 0;
  int failed = 0;
  for (const Test& test : kTests) {
    std::printf("-- %s\n", test.name);
    std::fflush(stdout);
    const bool good = run(test, pattern, test.size > devices);
    std::printf("%s: %s\n", good ? "passed" : "FAILED", test.name);
    ++(good ? passed : failed);
  }
  for (const int size : {1, 2}) {
    std::printf("-- sudden ends, %d rank(s)\n", size);
    std::fflush(stdout);
    const bool good = run_sudden_ends(size, pattern, size > devices);
    std::printf("%s: sudden ends, %d rank(s)\n", good ? "passed" : "FAILED", size);
    ++(good ? passed : failed);
  }
  fs::remove_all(pattern);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool public_api = argc == 2 && std::strcmp(argv[1], "--public-api") == 0;
  if (!public_api && (argc != 6 || std::strcmp(argv[1], "--rank") != 0)) return run_all();
  try {
    if (public_api) {
      share_gpu_if_asked();
      run_public_api();
      std::fflush(stdout);
      return 0;
    }
    CheckRank own;
    own.rank = std::atoi(argv[2]);  // NOLINT(cert-err34-c): from our own parent
    own.size = std::atoi(argv[3]);  // NOLINT(cert-err34-c)
    own.what = argv[4];
    own.id_file = argv[5];
    run_check_rank(own);
    std::fflush(stdout);
  } catch (const std::exception& error) {
    std::printf("rank %s: %s\n", public_api ? "here" : argv[2], error.what());
    return 1;
  }
  return 0;
}
