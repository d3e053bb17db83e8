// hvd-agent: the program that hvdrun starts on every host. Fully static, so that it can be sent to
// any host.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "hvdrun_config.h"
#include "worker/agent/guard.h"
#include "worker/agent/kept_agent.h"

namespace {

std::string own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

// This program and the folder that was made for it alone: it runs, so neither is needed any more.
void remove_own_folder() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = own_program();
  if (!fs::remove(program, ignored)) return;
  fs::remove(program.parent_path(), ignored);  // only if it is empty
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "guard") == 0) {
    if (argc == 3 && std::strcmp(argv[2], "temporary") == 0) {
      remove_own_folder();
      return hvdrun::run_guard();
    }
    const std::string program = own_program();
    hvdrun::settle_agent(program);
    return hvdrun::run_guard(hvdrun::kept_agent(program));
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("hvd-agent %s\n", HVDRUN_VERSION);
    return 0;
  }
  std::fprintf(stderr, "hvd-agent: hvdrun starts this program itself; run hvdrun --help\n");
  return 64;
}
