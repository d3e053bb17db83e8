// A program that hvdrun starts for a connection: an ssh client or srun, with pipes to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/environment.h"
#include "common/base/unique_fd.h"
#include "common/process/process.h"

namespace hvdrun {

struct ClientCommand {
  std::vector<std::string> argv = {};   // argv[0] is searched for in PATH
  std::optional<Environment> env = {};  // none: hvdrun's own
  std::uint64_t descriptor_limit = 0;   // soft limit of open files there; 0: hvdrun's own
};

struct ClientPipes {
  UniqueFd in;  // to its stdin
  UniqueFd out;
  UniqueFd err;
};

// ENOENT: there is no such program. In a session of its own: the terminal's signals are for the
// driver alone.
std::error_code start_client(const ClientCommand& command, Process& client, ClientPipes& pipes);

// To a client that runs, and to what is below it: a ProxyCommand, say. Not to what has left it on
// purpose, as the master of a ControlPersist has, which the user wants to outlive the job.
void signal_client_tree(const Process& client, int signal);

// A program of that name is there, as start_client() would find it.
bool is_program(const std::string& name);

}  // namespace hvdrun
