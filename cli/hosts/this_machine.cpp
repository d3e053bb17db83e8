#include "cli/hosts/this_machine.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <ifaddrs.h>
#include <netdb.h>
#include <strings.h>

#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

constexpr std::size_t kAskers = 16;  // threads of the child, each waits for one name at a time

// An address as inet_ntop writes it; of an IPv4 one in IPv6's clothes the IPv4 one. Empty: neither.
std::string spell(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address != nullptr && address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof text);
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
      ::inet_ntop(AF_INET, &six.s6_addr[12], text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &six, text, sizeof text);
    }
  }
  return text;
}

// With loopback and link-local ones.
std::set<std::string> own_addresses() {
  std::set<std::string> own;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return own;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    own.insert(spell(entry->ifa_addr));
  own.erase("");
  return own;
}

bool is_own(const std::string& address, const std::set<std::string>& own) {
  return address.starts_with("127.") || address == "::1" || own.count(address) != 0;
}

// The address that a name is, in its one spelling; empty: it is a name.
std::string as_address(const std::string& name) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (::inet_pton(AF_INET, name.c_str(), &four.sin_addr) == 1)
    return spell(reinterpret_cast<const sockaddr*>(&four));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, name.substr(0, name.find('%')).c_str(), &six.sin6_addr) == 1)
    return spell(reinterpret_cast<const sockaddr*>(&six));
  return {};
}

bool resolves_here(const std::string& name, const std::set<std::string>& own) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next)
    if (is_own(spell(entry->ai_addr), own)) return true;
  return false;
}

// Writes the index of each own name.
void answer(const std::vector<std::string>& names, int to) {
  const std::set<std::string> own = own_addresses();
  std::atomic<std::uint32_t> next = 0;
  const auto ask = [&] {
    for (std::uint32_t i = next++; i < names.size(); i = next++)
      if (resolves_here(names[i], own) && ::write(to, &i, sizeof i) != sizeof i) return;
  };
  std::vector<std::jthread> askers;  // joined on every way out
  try {
    while (askers.size() + 1 < std::min(kAskers, names.size())) askers.emplace_back(ask);
  } catch (const std::exception&) {
    // No more threads are allowed, or there is no memory; those that there are do it all.
  }
  ask();
}

}  // namespace

OwnNames::OwnNames(std::string hostname)
    : hostname_(std::move(hostname)), addresses_(own_addresses()) {}

KnownName OwnNames::find(const std::string& name) const {
  if (::strcasecmp(name.c_str(), "localhost") == 0 ||
      ::strcasecmp(name.c_str(), hostname_.c_str()) == 0)
    return KnownName::here;
  const std::string address = as_address(name);
  if (address.empty()) return KnownName::to_look_up;
  return is_own(address, addresses_) ? KnownName::here : KnownName::elsewhere;
}

std::vector<bool> look_up_own_names(const std::vector<std::string>& names,
                                    std::chrono::milliseconds limit) {
  std::vector<bool> found(names.size(), false);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return found;
  const UniqueFd from(fds[0]);
  UniqueFd to(fds[1]);
  const pid_t child = ::fork();
  if (child < 0) return found;
  if (child == 0) {
    answer(names, to.get());
    ::_exit(0);
  }
  to.reset();
  std::uint32_t index = 0;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wait{from.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    // Each index is one write, so it is read whole.
    if (ready <= 0 || ::read(from.get(), &index, sizeof index) != sizeof index) break;
    if (index < found.size()) found[index] = true;
  }
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return found;
}

std::string own_user_name() {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_name : "";
}

}  // namespace hvdrun
