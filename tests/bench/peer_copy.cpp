// Two ways to get the bytes of another process's ordinary memory: through slots in a shared
// mapping, which both write and both read, and by process_vm_readv. Two processes, each fetching
// the other's whole buffer at the same time, as an allreduce of two ranks does.
//
//   peer_copy BYTES ROUNDS    prints the median seconds of each; of the second "none" when the
//                             kernel forbids it
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::size_t kSlot = 128U << 10;

struct Shared {
  alignas(64) std::atomic<std::uint64_t> arrived[2][8];  // one line each
  alignas(64) pid_t pid[2];
  char* buffer[2];
  double seconds[2];
  bool forbidden;
  alignas(64) char slots[2][2][kSlot];
};

class Pair {
 public:
  Pair(Shared& shared, int self, std::size_t bytes)
      : shared_(shared), self_(self), own_(bytes, static_cast<char>(self + 1)), got_(bytes) {
    shared_.pid[self_] = ::getpid();
    shared_.buffer[self_] = own_.data();
    // The kernel may let only ancestors in.
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    meet();
  }

  void meet() {
    shared_.arrived[self_][0].store(++count_);
    for (int i = 0; shared_.arrived[1 - self_][0].load() < count_; ++i)
      if (i > 2000) ::sched_yield();
  }
  void staged() {
    for (std::size_t done = 0; done < own_.size(); done += kSlot) {
      const std::size_t size = std::min(kSlot, own_.size() - done);
      auto& slots = shared_.slots[++stage_ % 2];
      std::memcpy(slots[self_], own_.data() + done, size);
      meet();
      std::memcpy(got_.data() + done, slots[1 - self_], size);
    }
  }
  void read() {
    for (std::size_t done = 0; done < own_.size();) {
      iovec local{got_.data() + done, own_.size() - done};
      iovec remote{shared_.buffer[1 - self_] + done, own_.size() - done};
      const ssize_t size = ::process_vm_readv(shared_.pid[1 - self_], &local, 1, &remote, 1, 0);
      if (size <= 0) {
        shared_.forbidden = true;
        return;
      }
      done += static_cast<std::size_t>(size);
    }
  }
  // The median over the rounds of the slower one's time; buffers are written anew before each.
  double time(int rounds, const std::function<void()>& copy) {
    std::vector<double> slowest;
    for (int round = 0; round < rounds; ++round) {
      std::memset(own_.data(), self_ + 1 + round % 50, own_.size());
      meet();
      const auto begin = std::chrono::steady_clock::now();
      copy();
      shared_.seconds[self_] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      meet();
      slowest.push_back(std::max(shared_.seconds[0], shared_.seconds[1]));
      if (!shared_.forbidden && got_.back() != 2 - self_ + round % 50) std::abort();
      meet();
    }
    std::sort(slowest.begin(), slowest.end());
    return slowest[slowest.size() / 2];
  }

 private:
  Shared& shared_;
  int self_;
  std::vector<char> own_;
  std::vector<char> got_;
  std::uint64_t count_ = 0;
  std::uint64_t stage_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const std::size_t bytes = std::strtoull(argv[1], nullptr, 10);
  const int rounds = std::atoi(argv[2]);
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto& shared = *static_cast<Shared*>(memory);
  const pid_t child = ::fork();
  Pair pair(shared, child == 0 ? 1 : 0, bytes);
  const double staged = pair.time(rounds, [&] { pair.staged(); });
  const double read = pair.time(rounds, [&] { pair.read(); });
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::printf("%.9f ", staged);
  if (shared.forbidden) {
    std::puts("none");
  } else {
    std::printf("%.9f\n", read);
  }
  return 0;
}
