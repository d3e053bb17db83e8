#include "cli/plan/first_hosts.h"

#include <chrono>
#include <numeric>
#include <string>

#include "cli/hosts/host_list.h"
#include "cli/text/log.h"
#include "common/base/limits.h"

namespace hvdrun {
namespace {

// Between two lines on what is waited for.
constexpr std::chrono::seconds kNews{10};

std::uint64_t slots_of(const std::vector<HostEntry>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const HostEntry& host) { return sum + host.slots; });
}

}  // namespace

HostSource source_of(const Options& options) {
  HostSource source;
  source.where = options.hosts_where;
  source.slots = options.slots_per_host;
  if (options.discovery_script) {
    source.kind = HostSource::Kind::script;
    source.text = *options.discovery_script;
  } else if (options.hostfile && options.max_np) {
    source.kind = HostSource::Kind::hostfile;
    source.text = *options.hostfile;
  } else if (options.allocation && options.max_np) {
    source.kind = HostSource::Kind::slurm;
    source.text = *options.allocation;
    source.where = "Slurm allocation";
    HostListProblem problem;
    if (const auto hosts = parse_host_list(*options.hosts, problem))
      for (const HostEntry& host : *hosts) source.slots_of[host.name] = host.slots;
  }
  return source;
}

std::vector<HostEntry> first_hosts(const Options& options, const HostSource& source,
                                   const Surroundings& here) {
  if (!here.list_hosts) throw UsageError(source.where + ": it cannot be asked here");
  using Clock = std::chrono::steady_clock;
  const auto limit = options.elastic_timeout.value_or(limits::kElasticTimeout);
  const std::uint32_t enough = options.np.value_or(options.min_np.value_or(1));
  const auto begin = Clock::now();
  auto next_news = begin + kNews;
  HostLister lister({}, false);
  std::vector<HostEntry> hosts;
  std::string last_fault;
  while (true) {
    HostListing listing = here.list_hosts(source);
    last_fault = listing.fault;
    if (auto changed = lister.take(std::move(listing))) hosts = std::move(*changed);
    for (const std::string& news : lister.take_news())
      log_line(LogLevel::warn, source.where + ": " + source.text + " " + news);
    const std::uint64_t slots = slots_of(hosts);
    if (slots >= enough) return hosts;
    const auto now = Clock::now();
    const std::string there = source.where + ": " + source.text + " lists " +
                              std::to_string(slots) + (slots == 1 ? " slot" : " slots") + " of " +
                              std::to_string(enough);
    if (now - begin >= limit)
      throw HostError(there + " after " + std::to_string(limit.count() / 1000) +
                      " s (--elastic-timeout)" + (last_fault.empty() ? "" : "; it " + last_fault));
    if (now >= next_news) {
      next_news = now + kNews;
      log_line(LogLevel::warn, there + "; asked until there are enough");
    }
    here.pause_listing();
  }
}

}  // namespace hvdrun
