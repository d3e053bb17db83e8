#include "cli/hosts_command.h"

#include <cstdio>
#include <optional>

#include "cli/hosts/host_orders.h"
#include "cli/job_connection.h"
#include "cli/output/own_output.h"
#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

using Verb = HostsOrder::Verb;

std::optional<Verb> verb_of(const std::string& word) {
  if (word == "add") return Verb::add;
  if (word == "drain") return Verb::drain;
  if (word == "remove") return Verb::remove;
  return std::nullopt;
}

constexpr const char* kUsage =
    "write hvdrun hosts [JOB] add|drain|remove HOST[:SLOTS], with a job of hvdrun ps where there "
    "are several";

int send_order(const std::string& begin, const HostsOrder& order) {
  const std::string job = find_job(begin);
  const auto reply = JobConnection(job).ask<HostsReply>(order);
  if (!reply) {
    std::fprintf(stderr, "hvdrun: job %s did not answer\n", job.substr(0, 8).c_str());
    return exit_code::kTryAgain;
  }
  if (reply->exit_code != exit_code::kOk) {
    std::fprintf(stderr, "hvdrun: %s\n", reply->text.c_str());
    return static_cast<int>(reply->exit_code);
  }
  print(reply->text + "\n");
  return exit_code::kOk;
}

}  // namespace

int run_hosts(const std::vector<std::string>& words) {
  const std::size_t at = !words.empty() && verb_of(words[0]) ? 0 : 1;
  const std::optional<Verb> verb = words.size() < at + 2 ? std::nullopt : verb_of(words[at]);
  if (!verb) throw UsageError(kUsage);
  HostsOrder order;
  order.verb = *verb;
  order.hosts.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  for (const std::string& word : order.hosts) parse_ordered_hosts(word);
  return send_order(at == 1 ? words[0] : "", order);
}

int run_reload(const std::vector<std::string>& words) {
  if (words.size() > 1) throw UsageError("write hvdrun reload [JOB], a job of hvdrun ps");
  HostsOrder order;
  order.verb = Verb::reload;
  return send_order(words.empty() ? "" : words[0], order);
}

}  // namespace hvdrun
