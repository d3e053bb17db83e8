// hvd-agent: the program that hvdrun starts on every host. Fully static, so that it can be sent to
// any host.
#include <cstdio>
#include <cstring>

#include "hvdrun_config.h"
#include "worker/agent/guard.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "guard") == 0) return hvdrun::run_guard();
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("hvd-agent %s\n", HVDRUN_VERSION);
    return 0;
  }
  std::fprintf(stderr, "hvd-agent: hvdrun starts this program itself; run hvdrun --help\n");
  return 64;
}
