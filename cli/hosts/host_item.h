// One item of a list of hosts: [user@]host, [user@]host:slots or [user@]host:port:slots. The host
// is a name, a range of names (node[01-16], node[1,3,5-7]) or an IPv6 address in brackets. One
// number is Horovod's number of slots, never a port. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The way that ssh gets to a host, as far as the list of hosts says it.
struct HostLogin {
  std::string user;        // empty: not given
  std::uint16_t port = 0;  // 0: not given
  // The component of the Slurm job that it is of, where that has several; no list says it.
  std::optional<std::uint32_t> component{};

  bool is_given() const { return !user.empty() || port != 0; }
  bool operator==(const HostLogin&) const = default;
};

struct HostItem {
  std::vector<std::string> names;  // more than one of a range; IPv6 addresses without brackets
  HostLogin login;
  std::optional<std::uint32_t> slots;
};

// A fault in words, one line that names the item and says what to write; empty: nothing. What it
// lets through is safe to stand in a command: letters, digits and ".-_:%", users also "+@".
std::string parse_host_item(std::string_view text, HostItem& item);

// As it stands in a list, without slots: me@gpu1:2222, [fd00::1].
std::string spell_host(const std::string& name, const HostLogin& login);

// Digits only. A number that is too large becomes the largest.
bool parse_host_count(std::string_view text, std::uint32_t& number);

}  // namespace hvdrun
