#include "cli/openers/ssh/key_file.h"

#include "cli/openers/ssh/known_hosts.h"
#include "cli/openers/ssh/ssh_wire.h"

namespace hvdrun {

std::optional<KeyFile> read_key_file(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN OPENSSH PRIVATE KEY-----";
  constexpr std::string_view kEnd = "-----END OPENSSH PRIVATE KEY-----";
  constexpr std::string_view kMagic("openssh-key-v1\0", 15);
  const auto begin = text.find(kBegin);
  const auto end = text.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin)
    return std::nullopt;
  std::string base64;
  for (const char c : text.substr(begin + kBegin.size(), end - begin - kBegin.size()))
    if (c != '\n' && c != '\r') base64 += c;
  const std::string bytes = from_base64(base64);
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  SshReader reader(std::string_view(bytes).substr(kMagic.size()));
  KeyFile key;
  key.encrypted = reader.string() != "none";
  reader.string();  // how the key is derived from the passphrase
  reader.string();
  reader.number();  // of keys
  key.type = key_type(reader.string());
  if (!reader.ok() || key.type.empty()) return std::nullopt;
  return key;
}

}  // namespace hvdrun
