// The options that say how the other hosts are opened: those of --ssh and its like. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hosts/host_item.h"

namespace hvdrun {

// The words of a template that stand for the host, its login, and the command to run there.
inline constexpr std::string_view kHostWord = "{host}";
inline constexpr std::string_view kUserWord = "{user}";
inline constexpr std::string_view kPortWord = "{port}";
inline constexpr std::string_view kCommandWord = "{command}";

// The program or library that opens the other hosts. Automatic: srun within a Slurm allocation
// (cli/plan/opening_plan.h), else libssh2 or the client, for each host.
enum class HostCarrier { automatic, libssh2, client, srun };

struct SshOptions {
  HostCarrier carrier = HostCarrier::automatic;
  std::vector<std::string> program{"ssh"};  // and what stands before its options, or a template
  std::optional<std::uint16_t> port;
  std::string user;                        // of the list of hosts
  std::optional<std::uint32_t> component;  // of the Slurm job, for srun
  std::string identity_file;
  std::vector<std::string> arguments;  // the user's
  bool accept_new_host_keys = false;
  bool waits_for_hosts = false;  // that are not there yet, until the start timeout
};

// True where the program is no ssh client but a template with {host}, as in "kubectl exec -i {host}
// --".
bool is_template(const SshOptions& options);

// A fault of these options together, and what to write instead; empty: nothing.
std::string ssh_options_fault(const SshOptions& options);

// True where a template has a place for the user, or the port, of a host.
bool takes_user(const SshOptions& options);
bool takes_port(const SshOptions& options);

// "ssh" or "srun": what carries the hosts, for the user.
const char* carrier_of(const SshOptions& options);

// The options for a host whose login the list of hosts gives.
SshOptions with_login(SshOptions options, const HostLogin& login);

}  // namespace hvdrun
