// Words of ssh's files, its agent and `ssh -G`: nothing but what is understood, and files of known
// hosts that keep what they say of a host.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/openers/ssh/key_file.h"
#include "cli/openers/ssh/known_hosts.h"
#include "cli/openers/ssh/ssh_agent.h"
#include "cli/openers/ssh/ssh_config.h"

namespace {

using namespace hvdrun;

// A key of the shape that check() takes: a type with its length in front, then bytes.
const std::string kKey = std::string("\0\0\0\x0bssh-ed25519\0\0\0\x04keys", 23);

void check_known_hosts(std::string_view text) {
  KnownHosts hosts;
  hosts.add("file", text);
  const KnownHostName name = known_host_name("node1", 2222, "");
  std::string where;
  const auto verdict = hosts.check(name, kKey, where);
  assert((verdict == KnownHosts::Verdict::unknown) == where.empty());
  for (const std::string& type : hosts.types(name)) assert(!type.empty());
  static_cast<void>(hosts.has_authority(name));
  // A line of our own in front is found, unless the file revokes the key.
  KnownHosts more;
  more.add("own", known_hosts_line(name, kKey, std::string(20, 's')) + "\n");
  more.add("file", text);
  const auto now = more.check(name, kKey, where);
  assert(now == KnownHosts::Verdict::known ||
         (now == KnownHosts::Verdict::revoked && verdict == now));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_known_hosts(text);
  if (const auto key = read_key_file(text)) assert(!key->type.empty());
  if (const auto keys = parse_agent_keys(text))
    for (const std::string& key : *keys) static_cast<void>(key_type(key));
  if (const auto signature = parse_agent_signature(text)) assert(signature->size() < size);
  const std::string decoded = from_base64(text);
  assert(decoded.empty() || from_base64(to_base64(decoded)) == decoded);
  const SshConfig config(text);
  for (const char* const word : {"user", "port", "identityfile", "proxyjump"}) {
    assert(config.value(word).size() <= size);
    static_cast<void>(config.words(word, ','));
    static_cast<void>(config.is_set(word));
  }
  return 0;
}
