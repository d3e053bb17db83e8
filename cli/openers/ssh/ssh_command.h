// The command line of the ssh client. Sans-I/O.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/ssh_options.h"

namespace hvdrun {

// To run `remote` on `host`, never asking anything. The user's own arguments and configuration come
// last, so that they cannot be overridden but for what a launch without a terminal needs.
// `connect_timeout`: where the user names none, of one try; none: what the configuration says.
// With a template: its words with the host in place of {host}, and its login in those of {user} and
// {port}. Then `remote` follows as words that need no shell there ("sh", "-c", script), or stands
// in place of {command}, as one word for a shell.
std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     std::optional<std::chrono::milliseconds> connect_timeout,
                                     const std::string& remote);

// To have the client say (-G) how it would connect.
std::vector<std::string> ssh_query_command(const SshOptions& options, const std::string& host);

// A command that the user can type to see what ssh does.
std::string ssh_by_hand(const SshOptions& options, const std::string& host);

}  // namespace hvdrun
