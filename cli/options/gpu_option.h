// --gpus: which GPUs the ranks of each host see. Sans-I/O.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

struct GpuOption {
  enum class Mode { automatic, none, listed } mode = Mode::automatic;
  struct Host {
    std::string name;     // as -H has it, without user and port
    std::string devices;  // as CUDA_VISIBLE_DEVICES has them: 0,2
    std::size_t count = 0;
  };
  std::vector<Host> hosts;       // with `listed`; the others' ranks see all of theirs
  std::string where = "--gpus";  // how it was given, for messages
};

}  // namespace hvdrun
