#include "cli/openers/ssh/ssh_command.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

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

bool replace_word(std::string& word, std::string_view what, const std::string& by) {
  bool found = false;
  for (auto at = word.find(what); at != std::string::npos; at = word.find(what, at + by.size())) {
    word.replace(at, what.size(), by);
    found = true;
  }
  return found;
}

std::vector<std::string> fill_template(const SshOptions& options, const std::string& host,
                                       const std::string& remote) {
  std::vector<std::string> argv = options.program;
  bool placed = false;
  for (std::string& word : argv) {
    replace_word(word, kHostWord, host);
    replace_word(word, kUserWord, options.user);
    if (options.port) replace_word(word, kPortWord, std::to_string(*options.port));
    placed = replace_word(word, kCommandWord, remote) || placed;
  }
  if (!placed) argv.insert(argv.end(), {"sh", "-c", remote});
  return argv;
}

// Without a host.
std::vector<std::string> client_words(const SshOptions& options) {
  std::vector<std::string> argv = options.program;
  // A session of ours carries a job's life: it needs no terminal, and no other session's
  // connection, whose end would be its own. It speaks, for routers that forget who is quiet, but
  // when a silent host is lost is for the lease to say.
  argv.insert(argv.end(), {"-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o",
                           "ControlMaster=no", "-o", "ControlPath=none", "-o",
                           "ServerAliveInterval=30", "-o", "ServerAliveCountMax=1000"});
  add_destination(options, argv);
  return argv;
}

}  // namespace

std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     std::optional<std::chrono::milliseconds> connect_timeout,
                                     const std::string& remote) {
  if (is_template(options)) return fill_template(options, host, remote);
  std::vector<std::string> argv = client_words(options);
  // Behind the user's arguments: of two, the client takes the first.
  if (connect_timeout) {
    const auto seconds = std::max<std::int64_t>(1, (connect_timeout->count() + 999) / 1000);
    argv.insert(argv.end(), {"-o", "ConnectTimeout=" + std::to_string(seconds)});
  }
  argv.insert(argv.end(), {"--", host, remote});
  return argv;
}

std::vector<std::string> ssh_query_command(const SshOptions& options, const std::string& host) {
  std::vector<std::string> argv = client_words(options);
  argv.insert(argv.end(), {"-G", "--", host});
  return argv;
}

std::string ssh_by_hand(const SshOptions& options, const std::string& host) {
  std::vector<std::string> argv = options.program;
  if (is_template(options)) {
    argv = fill_template(options, host, "true");
  } else {
    add_destination(options, argv);
    argv.insert(argv.end(), {host, "true"});
  }
  std::string text;
  for (const std::string& word : argv) {
    if (!text.empty()) text += ' ';
    text += word.find_first_of(" \t'\"$&|;<>()*?") == std::string::npos ? word : "'" + word + "'";
  }
  return text;
}

}  // namespace hvdrun
