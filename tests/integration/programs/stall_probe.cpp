// A worker that tells its line what an engine would: all ranks but the last wait for 'grad.7'. The
// last does what the first argument says: read (from a pipe, for ever), stop (itself), absent
// (never joins), or a number: it comes after so many ms.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "worker/hvd/client/agent_connection.h"

namespace {

using namespace hvdrun;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

std::uint64_t ms_since(steady_clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin).count());
}

void read_for_ever() {
  int ends[2];
  char byte = 0;
  if (::pipe2(ends, O_CLOEXEC) == 0) (void)!::read(ends[0], &byte, 1);
}

// As an engine whose oldest operation does not end.
void wait_for_others(AgentConnection& line, std::chrono::milliseconds limit) {
  const std::uint64_t warning = line.topology().stall_warning;
  const std::uint64_t shutdown = line.topology().stall_shutdown;
  const auto begin = steady_clock::now();
  const auto report = [begin] {
    const std::uint64_t age = ms_since(begin);
    return StallReport{{{"grad.7", age}, {"loss", age}}, 2, "loss", 9};
  };
  line.set_events({[](const PeerLost&) {}, [](const hvd::Error&) {}, report});
  std::uint64_t next = warning;
  bool told_shutdown = shutdown == 0;
  while (ms_since(begin) < static_cast<std::uint64_t>(limit.count())) {
    const std::uint64_t age = ms_since(begin);
    if (warning != 0 && age >= next) {
      next += warning;
      line.report_stall(report());
    }
    if (!told_shutdown && age >= shutdown) {
      told_shutdown = true;
      line.report_stall(report());
    }
    std::this_thread::sleep_for(5ms);
  }
  line.set_events({});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::chrono::milliseconds late(std::atoi(what.c_str()));
  try {
    const auto environment = read_worker_environment(process_environment);
    if (!environment) return 2;
    const bool is_last = environment->rank + 1 == environment->size;
    if (is_last && what == "absent") read_for_ever();
    const auto deadline = steady_clock::now() + 60s;
    AgentConnection line(*environment, deadline);
    if (!is_last) {
      line.fence(environment->rank == 0 ? "id" : "", deadline);
      if (environment->rank == 0) {
        std::printf("warning %llu shutdown %llu\n",
                    static_cast<unsigned long long>(line.topology().stall_warning),
                    static_cast<unsigned long long>(line.topology().stall_shutdown));
        std::fflush(stdout);
      }
      wait_for_others(line, late > 0ms ? late : 60'000ms);
    } else {
      line.set_events({[](const PeerLost&) {}, [](const hvd::Error&) {},
                       [] {
                         return StallReport{{}, 0, "grad.6", 7};
                       }});
      line.fence("", deadline);
      if (what == "read") read_for_ever();
      if (what == "stop") ::raise(SIGSTOP);
      std::this_thread::sleep_for(late);
      line.set_events({});
    }
    line.fence("", deadline);
    line.leave();
    return 0;
  } catch (const hvd::Error& e) {
    std::printf("hvd::Error: %s\n", e.what());
    return 9;
  }
}
