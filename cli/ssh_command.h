// The command line of the ssh client. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/host_item.h"

namespace hvdrun {

struct SshOptions {
  std::vector<std::string> program{"ssh"};  // and what stands before its options
  std::optional<std::uint16_t> port;
  std::string user;  // of the list of hosts
  std::string identity_file;
  std::vector<std::string> arguments;  // the user's
  bool accept_new_host_keys = false;
};

// The options for a host whose login the list of hosts gives.
SshOptions with_login(SshOptions options, const HostLogin& login);

// To run `remote` on `host`, never asking anything. The user's own arguments and configuration come
// last, so that they cannot be overridden but for what a launch without a terminal needs.
std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     std::chrono::milliseconds connect_timeout,
                                     const std::string& remote);

// What the client says of a host whose key is in no known_hosts file; another key than the known
// one is something else.
bool is_unknown_host_key(const std::string& words);

// What the user can type to see what ssh does.
std::string ssh_by_hand(const SshOptions& options, const std::string& host);

}  // namespace hvdrun
