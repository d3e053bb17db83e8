// elastic_losses STEPS: the last rank of each epoch kills itself after STEPS steps, until rank 0 is
// alone and nobody has come for a while. Slot 0 stays for all of it, and says at each meeting what
// it uses:
//
//   meeting N: F descriptors, T threads, M mappings, K KiB
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <hvd/elastic_run.h>

namespace {

std::size_t entries_in(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::size_t lines_in(const char* path) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

// Its own memory: what it shares goes with the epoch.
long own_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == "RssAnon:" && file >> word) return std::atol(word.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  const int steps = std::atoi(argv[1]);
  hvd::init();
  const bool stays =
      std::getenv("HVD_RANK") != nullptr && std::string(std::getenv("HVD_RANK")) == "0";
  std::vector<double> value(1000, 0.0);
  hvd::elastic::MemoryState state;
  state.add("value", value.data(), value.size() * sizeof(double));
  int meetings = 0;
  hvd::elastic::run(state, [&] {
    if (stays) {
      std::printf("meeting %d: %zu descriptors, %zu threads, %zu mappings, %ld KiB\n", ++meetings,
                  entries_in("/proc/self/fd"), entries_in("/proc/self/task"),
                  lines_in("/proc/self/maps"), own_kib());
      std::fflush(stdout);
    }
    for (int step = 0; hvd::size() > 1; ++step) {
      if (step == steps && hvd::rank() == hvd::size() - 1) ::kill(::getpid(), SIGKILL);
      hvd::allreduce(value.data(), value.data(), value.size(), hvd::ReduceOp::average);
      state.commit();
    }
    // The pause before a slot's last start is a second.
    for (int waited = 0; waited < 400; ++waited) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      state.commit();
    }
  });
  std::printf("done: alone\n");
  hvd::shutdown();
  return 0;
}
