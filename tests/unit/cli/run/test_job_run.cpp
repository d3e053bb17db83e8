#include <chrono>
#include <set>

#include "cli/run/job_run.h"
#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RestartRecord record_of(seconds ago, std::vector<std::string> lost = {}) {
  RestartRecord record;
  record.job_id = "00ff";
  const auto began = std::chrono::steady_clock::now() - ago;
  record.began_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(began.time_since_epoch()).count());
  record.first_np = 6;
  record.history.restarts = 2;
  record.exit_code = 3;
  record.lost = std::move(lost);
  return record;
}

Options options_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--max-restarts", "5", "true"});
  return parse_options(words);
}

LaunchPlan next_plan(const std::vector<std::string>& words, const RestartRecord& record,
                     const std::vector<HostEntry>& listed = {}) {
  Surroundings here;
  here.hostname = "node7";
  here.cwd = "/tmp";
  here.list_hosts = [&](const HostSource&) { return HostListing{listed, "", {}}; };
  return plan_of_restart(options_of(words), here, record);
}

TEST_CASE("the plan of another start is of the same job, and says so to its ranks", "[restarts]") {
  const LaunchPlan plan = next_plan({"-np", "2", "-H", "a:1,b:1"}, record_of(seconds(1)));
  CHECK(plan.spec.job_id == "00ff");
  CHECK(plan.restarts.count == 2);
  CHECK(plan.restarts.first_np == 6);
  CHECK(find_variable(plan.spec.env, "HVD_RESTART_COUNT") == std::string("2"));
  CHECK(find_variable(plan.spec.env, "HVD_MAX_RESTARTS") == std::string("5"));
  CHECK(plan.ssh.waits_for_hosts);
  CHECK(plan.spec.np() == 2);
}

TEST_CASE("lost hosts are left out of a plan that may have fewer ranks", "[restarts]") {
  const std::vector<std::string> words{"-np", "4", "--min-np", "2", "-H", "a:2,b:2"};
  CHECK(next_plan(words, record_of(seconds(1), {"b"})).spec.np() == 2);
  // There is no room for --min-np without both.
  const LaunchPlan all = next_plan(words, record_of(seconds(1), {"a", "b"}));
  CHECK(all.spec.np() == 4);
  CHECK(all.spec.hosts().size() == 2);
}

TEST_CASE("with a script another start has the hosts of the moment, and as few ranks as may be",
          "[restarts]") {
  const std::vector<std::string> words{
      "-np", "8", "--min-np", "2", "--host-discovery-script", "x", "--max-np", "8"};
  const LaunchPlan plan = next_plan(words, record_of(seconds(1)), {{"a", 3}});
  CHECK(plan.spec.np() == 3);
  CHECK(plan.spec.min_np == 2);
  CHECK(plan.spec.elastic_timeout == limits::kElasticTimeout);
}

TEST_CASE("the time of a job goes on over its starts", "[restarts]") {
  const std::vector<std::string> words{"-np", "1", "--timeout", "60"};
  const auto left = next_plan(words, record_of(seconds(50))).spec.timeout;
  CHECK(left <= seconds(10));
  CHECK(left > seconds(0));
  CHECK(next_plan(words, record_of(seconds(70))).spec.timeout == milliseconds(1));
  CHECK(not_started_again(record_of(seconds(50)), options_of(words), "why") == 3);
  CHECK(not_started_again(record_of(seconds(70)), options_of(words), "why") == exit_code::kTimeout);
  CHECK(not_started_again(record_of(seconds(70)), options_of({"-np", "1"}), "why") == 3);
}

}  // namespace
}  // namespace hvdrun
