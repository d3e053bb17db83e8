#include "cli/openers/ssh/ssh_words.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace hvdrun {
namespace {

bool has(const std::string& words, std::string_view part) {
  return words.find(part) != std::string::npos;
}

// Words of connect() and getaddrinfo(), in the client's own words around them.
constexpr auto kAbsent = std::to_array<std::string_view>({
    ": Connection refused", ": No route to host", ": Network is unreachable", ": Network is down",
    ": Host is down", ": Connection timed out", ": Connection reset by peer",
    ": Name or service not known", ": Temporary failure in name resolution",
    ": No address associated with hostname", "Connection timed out during banner exchange",
    "System is booting up",  // pam_nologin
});
constexpr auto kRefused = std::to_array<std::string_view>({
    "Permission denied", "Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "Too many authentication failures",
    "no matching ",  // host key type, cipher
});

}  // namespace

bool is_unknown_host_key(const std::string& words) {
  return has(words, "Host key verification failed") && !has(words, "has changed");
}

bool server_hung_up(const std::string& words) {
  // A client of OpenSSH 10 has no other words where the server says why in a line before its
  // banner.
  if (words.starts_with("Connection closed by ") && has(words, " port ")) return true;
  return has(words, "kex_exchange_identification: ") &&
         (has(words, "Connection closed by") || has(words, "Connection reset by"));
}

void SshWords::hear(const std::string& line) {
  const auto stands = [&line](std::string_view part) { return has(line, part); };
  absent_ = absent_ || server_hung_up(line) || std::any_of(kAbsent.begin(), kAbsent.end(), stands);
  refused_ = refused_ || std::any_of(kRefused.begin(), kRefused.end(), stands);
}

}  // namespace hvdrun
