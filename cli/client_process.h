// A program that hvdrun starts for a connection: the ssh client, with pipes to it.
#pragma once

#include <string>
#include <system_error>
#include <vector>

#include "common/process.h"
#include "common/unique_fd.h"

namespace hvdrun {

struct ClientPipes {
  UniqueFd in;  // to its stdin
  UniqueFd out;
  UniqueFd err;
};

// argv[0] is searched for in PATH (ENOENT: it is not there). In a session of its own: the
// terminal's signals are for the driver alone.
std::error_code start_client(const std::vector<std::string>& argv, Process& client,
                             ClientPipes& pipes);

}  // namespace hvdrun
