#include "cli/local_transport.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace hvdrun {
namespace {

constexpr int kControlFd = 3;
constexpr int kOutputFd = 4;

std::error_code write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::write(fd, bytes.data(), bytes.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return {errno, std::system_category()};
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

}  // namespace

std::string find_agent() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* const set = ::secure_getenv("HVDRUN_AGENT")) {
    places = {set};
  } else {
    const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    places = {folder / "hvd-agent", folder.parent_path() / "libexec/hvdrun/hvd-agent"};
  }
  std::string list;
  for (const fs::path& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
    list += (list.empty() ? "" : " and ") + place.string();
  }
  throw std::runtime_error("hvd-agent was not found; looked at " + list);
}

std::error_code open_local_host(const std::string& agent, Bootstrap bootstrap,
                                LocalConnections connections, OpenHost& host) {
  int lease[2];
  if (::pipe2(lease, O_CLOEXEC) != 0) return {errno, std::system_category()};
  const UniqueFd read_end(lease[0]);
  host.lease.reset(lease[1]);

  SpawnOptions options;
  options.path = agent;
  options.argv = {"hvd-agent", "guard"};
  for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.new_session = true;  // the terminal's signals are for the driver alone
  options.fds = {{read_end.get(), 0}};
  if (connections.control) {
    options.fds.emplace_back(connections.control.get(), kControlFd);
    bootstrap.control.fd = kControlFd;
  }
  if (connections.output) {
    options.fds.emplace_back(connections.output.get(), kOutputFd);
    bootstrap.output.fd = kOutputFd;
  }
  const std::error_code ec = spawn(options, host.guard);
  if (ec) return ec;
  // Far less than a pipe holds, so this cannot block.
  return write_all(host.lease.get(), encode_frame(bootstrap));
}

}  // namespace hvdrun
