// The holders of a rank's stdout or stderr when nothing of the job is left: a process outside it,
// which a rank has handed a descriptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/wire/messages.h"

namespace hvdrun {

class HeldPipes {
 public:
  // One that is held; `pipe`: its reading end.
  void add(std::uint32_t rank, OutputStream stream, int pipe);
  bool empty() const { return pipes_.empty(); }

  // For the user, a line for each holder, a few of them: "the rest of stdout of rank 3 is not
  // shown: process 4711 (./logger), not of this job, holds it open". Looks through /proc/*/fd, for
  // so long at most; who is not seen there, another user's process say, is "a process".
  std::vector<std::string> describe(std::chrono::milliseconds limit) const;

 private:
  struct Pipe {
    std::uint32_t rank = 0;
    OutputStream stream{};
    ino_t inode = 0;
  };

  using Deadline = std::chrono::steady_clock::time_point;

  // The pipes, as indices, of which the process has the writing end.
  std::vector<std::size_t> held_by(pid_t pid, Deadline deadline) const;
  std::string name(const std::vector<std::size_t>& pipes) const;

  std::vector<Pipe> pipes_;
};

}  // namespace hvdrun
