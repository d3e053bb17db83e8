// Files of known host keys, as OpenSSH reads them: patterns, hashed names, [host]:port, @revoked
// and
// @cert-authority. Sans-I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// A host's name in these files.
struct KnownHostName {
  std::string name;
  std::string without_port;  // also good when `name` has a port and is not there; or empty
};
// `alias`: HostKeyAlias, or empty.
KnownHostName known_host_name(std::string_view host, std::uint16_t port, std::string_view alias);

class KnownHosts {
 public:
  enum class Verdict { known, unknown, changed, revoked };

  // `file` is for messages.
  void add(const std::string& file, std::string_view text);

  // `key` as it comes over the wire. A host of which only keys of other types are known is
  // `changed`: whoever stands between must not get by with a type that is not known. `where`:
  // file:line of the key that decided.
  Verdict check(const KnownHostName& host, std::string_view key, std::string& where) const;
  // The types of the keys of this host, those of no use left out.
  std::vector<std::string> types(const KnownHostName& host) const;
  // True where a certificate could vouch for this host.
  bool has_authority(const KnownHostName& host) const;

 private:
  enum class Marker { none, revoked, authority };
  struct Entry {
    Marker marker;
    std::string hosts;
    std::string type;
    std::string key;
    std::string where;
  };
  void add_line(std::string_view line, std::string where);
  Verdict check_name(std::string_view name, std::string_view key, std::string& where) const;

  std::vector<Entry> entries_;
};

// The type that a key names itself; empty: this is no key.
std::string key_type(std::string_view key);
// "SHA256:..." as ssh prints it.
std::string key_fingerprint(std::string_view key);
// A line for a known_hosts file, without its end. `salt`: 20 random bytes to hash the name with, or
// nothing to write it as it is.
std::string known_hosts_line(const KnownHostName& host, std::string_view key,
                             std::string_view salt = {});

std::string to_base64(std::string_view bytes);
// Empty when it is none.
std::string from_base64(std::string_view text);

}  // namespace hvdrun
