#include "common/host_list.h"

#include <algorithm>
#include <charconv>

#include "common/limits.h"

namespace hvdrun {
namespace {

constexpr std::string_view kExample = "write -H host:slots, as in -H gpu1:4,gpu2:4";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

std::string quoted(std::string_view item) { return "'" + std::string(item) + "'"; }

bool parse_item(std::string_view item, HostSlots& host, std::string& problem) {
  const auto colon = item.find(':');
  const std::string_view name = item.substr(0, colon);
  if (item.empty()) {
    problem = "an empty item in the list of hosts; ";
  } else if (name.empty()) {
    problem = "no host name in " + quoted(item) + "; ";
  } else if (name.size() > limits::kMaxHostName) {
    problem = "a host name of " + std::to_string(name.size()) + " characters; ";
  } else if (!std::all_of(name.begin(), name.end(), is_name_char)) {
    problem = "a character that no host name has in " + quoted(item) + "; ";
  } else if (name.front() == '-') {
    problem = "a host name must not begin with '-': " + quoted(item) + "; ";
  }
  if (!problem.empty()) {
    problem += kExample;
    return false;
  }
  host.name = name;
  host.slots = 1;
  if (colon == std::string_view::npos) return true;
  const std::string_view number = item.substr(colon + 1);
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), host.slots);
  if (number.empty() || end != number.data() + number.size() ||
      (ec != std::errc() && ec != std::errc::result_out_of_range)) {
    problem = "the number of slots is missing or not a number in " + quoted(item) + "; ";
    problem += kExample;
    return false;
  }
  if (ec == std::errc::result_out_of_range || host.slots > limits::kMaxSlotsPerHost) {
    problem = "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots in " + quoted(item);
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<HostSlots>> parse_host_list(std::string_view text, std::string& problem) {
  problem.clear();
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    HostSlots host;
    if (!parse_item(text.substr(begin, end - begin), host, problem)) return std::nullopt;
    begin = end + 1;
    const auto same = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const HostSlots& other) { return other.name == host.name; });
    if (same == hosts.end()) {
      hosts.push_back(std::move(host));
      if (hosts.size() > limits::kMaxHosts) {
        problem = "more than " + std::to_string(limits::kMaxHosts) + " hosts";
        return std::nullopt;
      }
    } else if ((same->slots += host.slots) > limits::kMaxSlotsPerHost) {
      problem = "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots on host '" +
                host.name + "'";
      return std::nullopt;
    }
  }
  return hosts;
}

}  // namespace hvdrun
