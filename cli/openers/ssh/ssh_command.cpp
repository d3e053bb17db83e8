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

constexpr std::string_view kHost = "{host}";
constexpr std::string_view kUser = "{user}";
constexpr std::string_view kPort = "{port}";
constexpr std::string_view kCommand = "{command}";

bool replace(std::string& word, std::string_view what, const std::string& by) {
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
    replace(word, kHost, host);
    replace(word, kUser, options.user);
    if (options.port) replace(word, kPort, std::to_string(*options.port));
    placed = replace(word, kCommand, remote) || placed;
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

bool has_place(const SshOptions& options, std::string_view what) {
  return std::any_of(options.program.begin(), options.program.end(),
                     [&](const std::string& word) { return word.find(what) != std::string::npos; });
}

}  // namespace

bool is_template(const SshOptions& options) { return has_place(options, kHost); }

bool takes_user(const SshOptions& options) { return has_place(options, kUser); }

bool takes_port(const SshOptions& options) { return has_place(options, kPort); }

const char* carrier_of(const SshOptions& options) {
  return options.transport == SshTransport::srun ? "srun" : "ssh";
}

std::string ssh_options_fault(const SshOptions& options) {
  if (options.transport == SshTransport::libssh2 && !options.arguments.empty())
    return "--ssh-args are the ssh client's: write --ssh openssh, or ~/.ssh/config for libssh2";
  const bool any_but_port =
      !options.identity_file.empty() || !options.arguments.empty() || options.accept_new_host_keys;
  if (options.transport == SshTransport::srun && (options.port || any_but_port))
    return "--ssh srun takes no other options for ssh: srun has no port, key or login of its own";
  if (is_template(options) && ((options.port && !takes_port(options)) || any_but_port))
    return "--ssh with {host} takes no other options for ssh: write them into its command";
  return {};
}

SshOptions with_login(SshOptions options, const HostLogin& login) {
  if (login.port != 0) options.port = login.port;
  options.user = login.user;
  options.component = login.component;
  return options;
}

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
