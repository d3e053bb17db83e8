#include "cli/run/job_run.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <utility>

#include "cli/run/driver.h"
#include "cli/run/job_report.h"
#include "cli/run/restart_pause.h"
#include "cli/run/restart_policy.h"
#include "cli/text/log.h"
#include "cli/text/user_errors.h"
#include "common/base/environment.h"
#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/process/process_tree.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Clock::time_point began_of(const RestartRecord& record) {
  return Clock::time_point(milliseconds(record.began_ms));
}

// Names that several hosts have tell nothing.
std::set<std::string> hosts_lost_in(const JobEnded& verdict, const RankTable& ranks) {
  std::set<std::string> names;
  if (verdict.cause != EndCause::host_lost) return names;
  names.insert(verdict.host);
  for (const std::uint32_t host : lost_hosts(verdict, ranks))
    names.insert(ranks.hosts()[host].name);
  std::erase_if(names, [&](const std::string& name) {
    return std::count_if(ranks.hosts().begin(), ranks.hosts().end(),
                         [&](const HostSlots& host) { return host.name == name; }) > 1;
  });
  return names;
}

// A script knows itself what is lost.
bool leaves_out_lost(const LaunchPlan& plan) {
  return plan.spec.min_np > 0 && plan.source.kind != HostSource::Kind::script;
}

RestartRecord first_record(const LaunchPlan& plan) {
  RestartRecord record;
  record.job_id = plan.spec.job_id;
  record.began_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()).count());
  record.first_np = plan.spec.np();
  return record;
}

// A change of this process that the next hvdrun must not find.
class ProcessSettings {
 public:
  ProcessSettings()
      : on_pipe_(::signal(SIGPIPE, SIG_IGN)),
        // A file over the limit is an error of its write.
        on_size_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_NOFILE, &descriptors_);
  }
  void undo() const {
    ::signal(SIGPIPE, on_pipe_);
    ::signal(SIGXFSZ, on_size_);
    ::setrlimit(RLIMIT_NOFILE, &descriptors_);
  }

 private:
  using Handler = void (*)(int);
  Handler on_pipe_;
  Handler on_size_;
  rlimit descriptors_{};
};

}  // namespace

LaunchPlan plan_of_restart(const Options& options, const Surroundings& here,
                           const RestartRecord& record) {
  Options left = options;
  left.without_hosts = {record.lost.begin(), record.lost.end()};
  // Where hosts are listed the job may go on with so many ranks, and takes all that there are.
  if (options.discovery_script || options.max_np)
    left.np = options.min_np ? options.min_np : options.np;
  const auto left_of_timeout = [&] {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(
                                         began_of(record) + *options.timeout - Clock::now()));
  };
  const bool is_elastic = options.min_np || options.discovery_script;
  if (options.timeout && is_elastic)
    left.elastic_timeout =
        std::min(options.elastic_timeout.value_or(limits::kElasticTimeout), left_of_timeout());
  const auto planned = [&] {
    try {
      return make_plan(left, here);
    } catch (const UsageError& e) {
      if (record.lost.empty()) throw;
      log_line(LogLevel::warn, std::string(e.what()) + "; it is started where it was");
      left.without_hosts.clear();
      return make_plan(left, here);
    }
  };
  LaunchPlan plan = planned();
  if (is_elastic)
    plan.spec.elastic_timeout = options.elastic_timeout.value_or(limits::kElasticTimeout);
  plan.ssh.waits_for_hosts = true;  // they were there before
  plan.spec.job_id = record.job_id;
  plan.restarts.count = record.history.restarts;
  plan.restarts.first_np = record.first_np;
  set_variable(plan.spec.env, "HVD_RESTART_COUNT", std::to_string(plan.restarts.count));
  if (options.timeout) plan.spec.timeout = left_of_timeout();
  return plan;
}

int not_started_again(const RestartRecord& record, const Options& options, const std::string& why) {
  const bool is_late = options.timeout && Clock::now() >= began_of(record) + *options.timeout;
  if (is_late) return timed_out_before_restart();
  log_line(LogLevel::warn, "the job is not started again: " + why);
  return static_cast<int>(record.exit_code);
}

int run_job(LaunchPlan plan, const std::optional<RestartRecord>& record) {
  const ProcessSettings settings;
  RestartRecord next = record.value_or(first_record(plan));
  if (plan.restarts.most > 0) keep_events_pipe(plan.events_file, next);
  RestartPolicy policy({plan.restarts.most}, next.history);
  const auto began = Clock::now();
  std::optional<milliseconds> pause;  // before the next start, if there is to be one
  const auto on_failure = [&](const JobEnded& verdict) {
    const auto ran = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
    const auto decision = policy.on_failure(verdict, ran);
    pause = decision.pause;
    if (leaves_out_lost(plan))
      for (const std::string& name : hosts_lost_in(verdict, plan.spec.ranks))
        next.lost.push_back(name);
    return decision.text;
  };
  const auto attempt = [&] {
    HeldLog log;
    return run_attempt(plan, on_failure, log);
  };
  const AttemptEnd end = attempt();
  next.output_lost = next.output_lost || end.output_lost;
  if (pause && end.signal != 0) return ended_before_restart(end.signal, policy.history().restarts);
  if (end.exit_code == exit_code::kOk && next.output_lost) return exit_code::kOutput;
  if (!pause || end.is_interrupted) return end.exit_code;
  next.history = policy.history();
  next.exit_code = static_cast<std::uint32_t>(end.exit_code);
  RestartWait wait{next.history.restarts, *pause, began_of(next), std::nullopt};
  if (plan.spec.timeout.count() > 0) wait.deadline = began + plan.spec.timeout;
  if (const auto code = wait_for_restart(plan, wait)) return *code;
  const auto kill_rest = [&] {
    return end.children.empty() ? kill_descendants_and_wait()
                                : kill_children_and_wait(end.children);
  };
  if (!end.all_gone && !kill_rest()) {
    log_line(LogLevel::warn,
             "processes of the job cannot be ended; it is not started again beside them");
    return end.exit_code;
  }
  settings.undo();
  const std::error_code ec = start_again(std::move(next));
  log_line(LogLevel::warn, "the job cannot be started again: " + ec.message());
  return end.exit_code;
}

}  // namespace hvdrun
