#include "cli/options/build_info.h"

#include "hvdrun_config.h"

namespace hvdrun {
namespace {

std::string line(bool built, const char* what) {
  return std::string(built ? "    [X] " : "    [ ] ") + what + "\n";
}

}  // namespace

std::string version_text() { return HVDRUN_VERSION; }

std::string build_text() {
  return "hvdrun v" + version_text() + ":\n\nAvailable Frameworks:\n" +
         line(HVDRUN_HAVE_TORCH == 1, "LibTorch (C++)") + "\nAvailable Controllers:\n" +
         line(true, "Unix sockets") + line(true, "TCP with TLS 1.3-PSK") + line(false, "MPI") +
         "\nAvailable Tensor Operations:\n" + line(true, "shared memory (CPU)") +
         line(true, "TCP (CPU, between hosts)") +
         line(true, "NCCL (GPU; loaded at run time, where a host has it)");
}

}  // namespace hvdrun
