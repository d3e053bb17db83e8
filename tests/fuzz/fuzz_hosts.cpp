// A list of hosts and a hostfile as a user may write them: hosts within the limits, or a problem
// that says where it is.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hosts/host_list.h"
#include "common/base/limits.h"

namespace {

void check(const std::optional<std::vector<hvdrun::HostEntry>>& hosts,
           const hvdrun::HostListProblem& problem, std::size_t size, bool may_be_empty) {
  using namespace hvdrun;
  if (!hosts) {
    assert(!problem.text.empty());
    assert(problem.at <= size);
    return;
  }
  assert((may_be_empty || !hosts->empty()) && hosts->size() <= limits::kMaxHosts);
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
  const std::string safe_in_login = std::string(kSafe) + "+@";
  std::set<std::string> names;
  for (const HostEntry& host : *hosts) {
    assert(!host.name.empty() && host.name.size() <= limits::kMaxHostName);
    assert(host.name.front() != '-' && host.name.find_first_not_of(kSafe) == host.name.npos);
    const std::string& user = host.login.user;
    assert(user.empty() || user.front() != '-');
    assert(user.find_first_not_of(safe_in_login) == user.npos);
    assert(host.slots <= limits::kMaxSlotsPerHost);
    assert(names.insert(spell_host(host.name, host.login)).second);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  hvdrun::HostListProblem in_list;
  check(hvdrun::parse_host_list(text, in_list), in_list, size, false);
  hvdrun::HostListProblem in_file;
  check(hvdrun::parse_hostfile(text, in_file), in_file, size, true);
  return 0;
}
