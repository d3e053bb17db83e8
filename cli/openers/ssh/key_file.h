// Facts that a file with a private ssh key tells of itself without its passphrase. Sans-I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

struct KeyFile {
  std::string type;  // "ssh-ed25519"
  bool encrypted = false;
};

// Nothing: it is not in OpenSSH's own format, which ssh-keygen has written since 2014 (RSA: 2018).
std::optional<KeyFile> read_key_file(std::string_view text);

}  // namespace hvdrun
