#include "cli/hosts/host_source.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMostFaults = 16;
constexpr std::size_t kShownBytes = 60;

using Key = std::tuple<std::string, std::string, std::uint16_t>;

Key key_of(const HostEntry& host) { return {host.name, host.login.user, host.login.port}; }

// A script may print them in another order each time.
bool same_list(const std::vector<HostEntry>& a, const std::vector<HostEntry>& b) {
  const auto sorted = [](const std::vector<HostEntry>& hosts) {
    std::vector<std::pair<Key, std::uint32_t>> keys;
    keys.reserve(hosts.size());
    for (const HostEntry& host : hosts) keys.emplace_back(key_of(host), host.slots);
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  return a.size() == b.size() && sorted(a) == sorted(b);
}

std::string_view trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const auto begin = line.find_first_not_of(" \t\r");
  if (begin == line.npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

HostListing read_script_output(const HostSource& source, std::string_view text) {
  HostListing listing;
  std::set<Key> known;
  while (!text.empty() && listing.fault.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    HostItem item;
    listing.fault = parse_host_item(line, item);
    if (!listing.fault.empty())
      listing.fault = "lists '" + printable(std::string(line.substr(0, kShownBytes))) +
                      "', which is no host: " + listing.fault;
    for (const std::string& name : item.names) {
      HostEntry entry{name, item.slots.value_or(source.slots.value_or(1)), item.login};
      if (!known.insert(key_of(entry)).second)
        listing.remarks.push_back("lists " + name + " more than once; its first line counts");
      else
        listing.hosts.push_back(std::move(entry));
    }
    if (listing.hosts.size() > limits::kMaxHosts)
      listing.fault = "lists more than " + std::to_string(limits::kMaxHosts) + " hosts";
  }
  return listing;
}

// squeue prints the nodes of the job in one line, as in node[1-3],gpu1.
HostListing read_allocation(const HostSource& source, std::string_view text) {
  HostListing listing;
  const std::string_view line = trimmed(text.substr(0, text.find('\n')));
  if (line.empty()) return listing;
  HostListProblem problem;
  auto hosts = parse_host_list(line, problem);
  if (!hosts) {
    listing.fault = "has the nodes '" + printable(std::string(line.substr(0, kShownBytes))) +
                    "', which are no hosts: " + problem.text;
    return listing;
  }
  for (HostEntry& host : *hosts) {
    const auto known = source.slots_of.find(host.name);
    host.slots = known != source.slots_of.end() ? known->second : source.slots.value_or(1);
  }
  listing.hosts = std::move(*hosts);
  return listing;
}

}  // namespace

std::vector<std::string> command_of(const HostSource& source) {
  if (source.kind == HostSource::Kind::slurm)
    return {"squeue", "--noheader", "--jobs", source.text, "--format", "%N"};
  // `$0` is no part of a line that a shell would take apart.
  if (source.kind == HostSource::Kind::hostfile) return {"cat", "--", source.text};
  return {"/bin/sh", "-c", "if [ -f \"$0\" ]; then exec \"$0\"; else eval \"$0\"; fi", source.text};
}

HostListing read_listing(const HostSource& source, std::string_view text) {
  HostListing listing;
  if (source.kind == HostSource::Kind::slurm) {
    listing = read_allocation(source, text);
  } else if (source.kind == HostSource::Kind::hostfile) {
    HostListProblem problem;
    auto hosts = parse_hostfile(text, problem);
    if (hosts)
      listing.hosts = std::move(*hosts);
    else
      listing.fault = "line " + std::to_string(problem.line) + ": " + problem.text;
  } else {
    listing = read_script_output(source, text);
  }
  // A host without slots is one that is not to be used now.
  std::erase_if(listing.hosts, [](const HostEntry& host) { return host.slots == 0; });
  if (listing.fault.empty() && listing.hosts.empty()) listing.fault = "lists no host";
  return listing;
}

HostLister::HostLister(std::vector<HostEntry> hosts, bool file)
    : hosts_(std::move(hosts)), file_(file) {}

void HostLister::tell(const std::string& news) {
  if (told_.size() < kMostFaults && told_.insert(news).second) news_.push_back(news);
}

std::optional<std::vector<HostEntry>> HostLister::take(HostListing listing) {
  const bool at_once = !file_ || std::exchange(believed_, false);
  for (const std::string& remark : listing.remarks) tell(remark);
  if (!listing.fault.empty()) {
    seen_.reset();
    tell(listing.fault + (hosts_.empty() ? "" : "; the hosts stay as they are"));
    return std::nullopt;
  }
  if (same_list(listing.hosts, hosts_)) {
    seen_.reset();
    return std::nullopt;
  }
  if (!at_once && !(seen_ && same_list(*seen_, listing.hosts))) {
    seen_ = std::move(listing.hosts);
    return std::nullopt;
  }
  seen_.reset();
  hosts_ = listing.hosts;
  return std::move(listing.hosts);
}

}  // namespace hvdrun
