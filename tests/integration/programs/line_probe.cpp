// A worker that uses its line to the agent directly: store and fence, over several hosts too.
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "worker/hvd/client/agent_connection.h"

int main() {
  using namespace hvdrun;
  using namespace std::chrono_literals;
  const auto in = [](auto time) { return std::chrono::steady_clock::now() + time; };
  try {
    const auto environment = read_worker_environment(process_environment);
    if (!environment) return 2;
    AgentConnection line(*environment, in(20s));
    const std::uint32_t rank = line.topology().rank;
    const std::uint32_t size = line.topology().size;

    // The fence carries rank 0's blob.
    if (line.fence(rank == 0 ? "blob of 0" : "", in(20s)) != "blob of 0") return 3;

    // Everybody waits for the key of the next rank, which comes late; nobody polls.
    const auto begin = std::chrono::steady_clock::now();
    std::thread late([&] {
      std::this_thread::sleep_for(200ms);
      line.put("key " + std::to_string(rank), std::string(100'000, 'v') + std::to_string(rank),
               in(20s));
    });
    const std::string next = std::to_string((rank + 1) % size);
    const auto value = line.get("key " + next, in(20s));
    const auto waited = std::chrono::steady_clock::now() - begin;
    late.join();
    if (!value || *value != std::string(100'000, 'v') + next) return 4;
    if (waited < 100ms) return 5;

    // A key that never comes is given up in time.
    if (line.get("no such key", in(300ms))) return 6;

    if (line.fence("", in(20s)) != "") return 7;
    std::printf("fine\n");
    line.leave();
    return 0;
  } catch (const hvd::Error& e) {
    std::printf("hvd::Error: %s\n", e.what());
    return 9;
  }
}
