// The command line of the ssh client. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/host_item.h"

namespace hvdrun {

// What opens the other hosts. Automatic: srun within a Slurm allocation (cli/opening_plan.h), else
// libssh2 or the client, for each host.
enum class SshTransport { automatic, libssh2, client, srun };

struct SshOptions {
  SshTransport transport = SshTransport::automatic;
  std::vector<std::string> program{"ssh"};  // and what stands before its options, or a template
  std::optional<std::uint16_t> port;
  std::string user;                        // of the list of hosts
  std::optional<std::uint32_t> component;  // of the Slurm job, for srun
  std::string identity_file;
  std::vector<std::string> arguments;  // the user's
  bool accept_new_host_keys = false;
  bool waits_for_hosts = false;  // that are not there yet, until the start timeout
};

// Whether the program is no ssh client but a template with {host}, as in "kubectl exec -i {host}
// --".
bool is_template(const SshOptions& options);

// What is wrong with these options together, and what to write instead; empty: nothing.
std::string ssh_options_fault(const SshOptions& options);

// Whether a template has a place for the user, or the port, of a host.
bool takes_user(const SshOptions& options);
bool takes_port(const SshOptions& options);

// "ssh" or "srun": what carries the hosts, for the user.
const char* carrier_of(const SshOptions& options);

// The options for a host whose login the list of hosts gives.
SshOptions with_login(SshOptions options, const HostLogin& login);

// To run `remote` on `host`, never asking anything. The user's own arguments and configuration come
// last, so that they cannot be overridden but for what a launch without a terminal needs.
// `connect_timeout`: where the user names none, of one try; none: what the configuration says.
std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     std::optional<std::chrono::milliseconds> connect_timeout,
                                     const std::string& remote);

// With a template: its words with the host in place of {host}, and its login in those of {user} and
// {port}. Then `remote` follows as words that
// need no shell there ("sh", "-c", script), or stands in place of {command}, as one word for a
// shell.

// To have the client say (-G) how it would connect.
std::vector<std::string> ssh_query_command(const SshOptions& options, const std::string& host);

// What the user can type to see what ssh does.
std::string ssh_by_hand(const SshOptions& options, const std::string& host);

}  // namespace hvdrun
