#include "worker/agent/ranks/dying_process.h"

#include <array>
#include <string>
#include <unistd.h>

#include "worker/agent/ranks/process_probe.h"

namespace hvdrun {

bool dumps_core(pid_t pid) {
  const auto status = read_proc_file("/proc/" + std::to_string(pid) + "/status");
  return status && status->find("\nCoreDumping:\t1") != std::string::npos;
}

// The link has no target once the process has given up its memory.
bool has_program(pid_t pid) {
  std::array<char, 1> target{};
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  return ::readlink(link.c_str(), target.data(), target.size()) > 0;
}

}  // namespace hvdrun
