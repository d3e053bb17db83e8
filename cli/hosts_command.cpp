#include "cli/hosts_command.h"

#include <cstdio>
#include <map>

#include "cli/hosts/host_orders.h"
#include "cli/job_connection.h"
#include "cli/output/own_output.h"
#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

using Verb = HostsOrder::Verb;

const std::map<std::string, Verb> kVerbs{
    {"add", Verb::add}, {"drain", Verb::drain}, {"remove", Verb::remove}};

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
  const std::size_t at = !words.empty() && kVerbs.contains(words[0]) ? 0 : 1;
  if (words.size() < at + 2 || !kVerbs.contains(words[at])) throw UsageError(kUsage);
  HostsOrder order;
  order.verb = kVerbs.at(words[at]);
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
