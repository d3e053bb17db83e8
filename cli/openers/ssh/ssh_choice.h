// The choice of ssh for one host: libssh2, or the OpenSSH client where the host's configuration
// asks for what libssh2 1.10 cannot do. Whether ssh opens the host at all is decided by
// cli/plan/opening_plan.h. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/openers/ssh/known_hosts.h"
#include "cli/openers/ssh/ssh_command.h"
#include "cli/openers/ssh/ssh_config.h"

namespace hvdrun {

// All that libssh2 must know to open a host.
struct Libssh2Target {
  enum class Family { any, v4, v6 };

  std::string user;
  std::string host;  // a name or an address
  std::uint16_t port = 22;
  Family family = Family::any;
  std::optional<std::chrono::milliseconds> connect_timeout;  // of one attempt
  int attempts = 1;
  KnownHostName known_as;
  std::shared_ptr<const KnownHosts> known_hosts;
  std::string record_in;  // the file that takes new hosts
  bool accept_new = false;
  bool hash_names = false;  // of new hosts
  std::string agent;        // the socket of an ssh agent; empty: none is asked
  std::vector<std::string> key_files;
  std::vector<std::string> key_types;  // what keys may be shown to the server
  // In order of preference, with commas between.
  std::string kex;
  std::string ciphers;
  std::string macs;
  std::string host_keys;
};

// Facts that the choice depends on besides the configuration.
struct SshSurroundings {
  std::string user;
  std::string home;
  std::string agent;        // SSH_AUTH_SOCK
  bool has_ticket = false;  // of Kerberos
  // Nothing: there is no such file.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  // Nothing: or others can read it too, which ssh does not accept of a key.
  std::function<std::optional<std::string>(const std::string& path)> read_key;
};

struct SshChoice {
  std::string not_libssh2;  // the reason why the client must do it; empty: libssh2 can
  Libssh2Target target;
};

// ConnectTimeout; nothing: the configuration has none.
std::optional<std::chrono::milliseconds> ssh_connect_timeout(const SshConfig& config);

SshChoice choose_ssh(const SshConfig& config, const SshSurroundings& here);

// The configuration that holds where there is no ssh program that could be asked. `host`: as on the
// command line.
SshConfig default_ssh_config(const std::string& host, const SshOptions& options,
                             const SshSurroundings& here);

}  // namespace hvdrun
