#include "cli/options/ssh_options.h"

#include <algorithm>

namespace hvdrun {
namespace {

bool has_place(const SshOptions& options, std::string_view what) {
  return std::any_of(options.program.begin(), options.program.end(),
                     [&](const std::string& word) { return word.find(what) != std::string::npos; });
}

}  // namespace

bool is_template(const SshOptions& options) { return has_place(options, kHostWord); }

bool takes_user(const SshOptions& options) { return has_place(options, kUserWord); }

bool takes_port(const SshOptions& options) { return has_place(options, kPortWord); }

const char* carrier_of(const SshOptions& options) {
  return options.carrier == HostCarrier::srun ? "srun" : "ssh";
}

std::string ssh_options_fault(const SshOptions& options) {
  if (options.carrier == HostCarrier::libssh2 && !options.arguments.empty())
    return "--ssh-args are the ssh client's: write --ssh openssh, or ~/.ssh/config for libssh2";
  const bool any_but_port =
      !options.identity_file.empty() || !options.arguments.empty() || options.accept_new_host_keys;
  if (options.carrier == HostCarrier::srun && (options.port || any_but_port))
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

}  // namespace hvdrun
