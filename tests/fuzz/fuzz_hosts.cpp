// A list of hosts as a user may write it: hosts within the limits, or a problem.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "common/host_list.h"
#include "common/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hvdrun;
  std::string problem = "left over";
  const auto hosts = parse_host_list({reinterpret_cast<const char*>(data), size}, problem);
  assert(hosts.has_value() == problem.empty());
  if (!hosts) return 0;
  assert(!hosts->empty() && hosts->size() <= limits::kMaxHosts);
  std::set<std::string> names;
  for (const HostSlots& host : *hosts) {
    assert(!host.name.empty() && host.name.size() <= limits::kMaxHostName);
    assert(host.slots <= limits::kMaxSlotsPerHost);
    assert(names.insert(host.name).second);
  }
  return 0;
}
