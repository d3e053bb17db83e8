// The agent's Unix stream socket: connecting, and bytes with descriptors.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

namespace hvdrun {

// A connected, non-blocking socket whose other end belongs to this user or to root. `name` is a
// path, or '@' and an abstract name. Throws Error(unavailable).
UniqueFd connect_agent(const std::string& name, std::chrono::steady_clock::time_point deadline);

// The outcome of one read. `bytes` 0 and no error: end of stream. EAGAIN is not an error: `again`.
struct Received {
  std::size_t bytes = 0;
  bool again = false;
  int error = 0;  // errno
  std::vector<UniqueFd> descriptors;
};
Received receive(int socket, char* buffer, std::size_t size);

// Bytes taken by the kernel, 0 when it takes none now, -1 with errno otherwise.
long send_some(int socket, std::string_view bytes);

}  // namespace hvdrun
