// The check that the key which a server shows is the host's, and the record of new hosts.
#pragma once

#include <string>
#include <string_view>

#include "cli/openers/ssh/ssh_choice.h"

namespace hvdrun {

struct HostKeyRefusal {
  std::string why;     // empty: the key is good
  std::string advice;  // the line to run; empty: there is none
};

// Records the key of an unknown host when the target says so.
HostKeyRefusal check_host_key(const Libssh2Target& target, std::string_view key);

}  // namespace hvdrun
