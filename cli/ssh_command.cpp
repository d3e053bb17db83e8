#include "cli/ssh_command.h"

#include <algorithm>

namespace hvdrun {
namespace {

void add_destination(const SshOptions& options, std::vector<std::string>& argv) {
  if (options.accept_new_host_keys)
    argv.insert(argv.end(), {"-o", "StrictHostKeyChecking=accept-new"});
  if (!options.user.empty()) argv.insert(argv.end(), {"-l", options.user});
  if (options.port) argv.insert(argv.end(), {"-p", std::to_string(*options.port)});
  if (!options.identity_file.empty()) argv.insert(argv.end(), {"-i", options.identity_file});
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
}

}  // namespace

SshOptions with_login(SshOptions options, const HostLogin& login) {
  if (login.port != 0) options.port = login.port;
  options.user = login.user;
  return options;
}

std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     std::chrono::milliseconds connect_timeout,
                                     const std::string& remote) {
  std::vector<std::string> argv = options.program;
  const auto seconds = std::max<std::int64_t>(1, (connect_timeout.count() + 999) / 1000);
  // A session of ours carries a job's life: it needs no terminal, and no other session's
  // connection, whose end would be its own.
  argv.insert(argv.end(), {"-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o",
                           "ControlMaster=no", "-o", "ControlPath=none", "-o",
                           "ConnectTimeout=" + std::to_string(seconds)});
  add_destination(options, argv);
  argv.insert(argv.end(), {"--", host, remote});
  return argv;
}

bool is_unknown_host_key(const std::string& words) {
  return words.find("Host key verification failed") != std::string::npos &&
         words.find("has changed") == std::string::npos;
}

std::string ssh_by_hand(const SshOptions& options, const std::string& host) {
  std::vector<std::string> argv = options.program;
  add_destination(options, argv);
  argv.insert(argv.end(), {host, "true"});
  std::string text;
  for (const std::string& word : argv) {
    if (!text.empty()) text += ' ';
    text += word.find_first_of(" \t'\"$&|;<>()*?") == std::string::npos ? word : "'" + word + "'";
  }
  return text;
}

}  // namespace hvdrun
