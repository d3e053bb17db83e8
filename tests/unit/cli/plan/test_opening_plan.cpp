// The openers of the other hosts: srun, ssh or a command of the user's.

#include "cli/openers/ssh/ssh_command.h"
#include "cli/plan/launch_plan.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

struct Here {
  Environment env;
  bool has_srun = true;

  LaunchPlan plan(std::vector<std::string> args) const {
    Surroundings here;
    here.env = env;
    here.cwd = "/tmp";
    here.hostname = "tux0";
    here.count_slots = [] { return 6U; };
    here.user = [] { return std::string("me"); };
    here.is_program = [this](const std::string& name) { return has_srun && name == "srun"; };
    args.emplace_back("true");
    return make_plan(parse_options(args), here);
  }
  HostCarrier opened_by(std::vector<std::string> args) const {
    return plan(std::move(args)).ssh.carrier;
  }
};

Here in_allocation() {
  return {{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=tux[0-2]", "SLURM_TASKS_PER_NODE=3(x3)"}};
}

std::string notes_of(const LaunchPlan& plan) {
  std::string text;
  for (const std::string& note : plan.notes) text += note + "\n";
  return text;
}

std::string command_line(const LaunchPlan& plan, std::size_t host) {
  std::string text;
  for (const std::string& word :
       ssh_command(with_login(plan.ssh, plan.logins[host]), plan.spec.hosts()[host].name,
                   std::chrono::milliseconds(1000), "x"))
    text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST_CASE("hosts of a Slurm allocation are opened by srun", "[opening]") {
  const Here slurm = in_allocation();
  const LaunchPlan plan = slurm.plan({});
  CHECK(plan.ssh.carrier == HostCarrier::srun);
  CHECK(plan.ssh.program == std::vector<std::string>{"srun"});
  // This machine is not.
  CHECK(plan.remote == std::vector<bool>{false, true, true});
  CHECK(slurm.opened_by({"-H", "tux2:1,tux1:1"}) == HostCarrier::srun);
  CHECK(slurm.opened_by({"--ssh", "auto"}) == HostCarrier::srun);
  CHECK(slurm.opened_by({"--ssh", "srun"}) == HostCarrier::srun);
}

TEST_CASE("what srun cannot open, or the user wants otherwise, is opened by ssh", "[opening]") {
  const Here slurm = in_allocation();
  CHECK(slurm.opened_by({"--ssh", "libssh2"}) == HostCarrier::libssh2);
  CHECK(slurm.opened_by({"--ssh", "openssh"}) == HostCarrier::client);
  CHECK(slurm.opened_by({"--ssh", "reach {host} --"}) == HostCarrier::client);
  CHECK(slurm.opened_by({"--ssh-port", "77"}) == HostCarrier::automatic);
  CHECK(slurm.opened_by({"-i", "key"}) == HostCarrier::automatic);
  CHECK(slurm.opened_by({"--ssh-args", "-4"}) == HostCarrier::automatic);
  CHECK(slurm.opened_by({"--accept-new-host-keys"}) == HostCarrier::automatic);
  CHECK(slurm.opened_by({"-H", "you@tux1:1"}) == HostCarrier::automatic);
  CHECK(slurm.opened_by({"-H", "tux1:77:1"}) == HostCarrier::automatic);
  const LaunchPlan outside = slurm.plan({"-H", "tux1:1,gpu1:1"});
  CHECK(outside.ssh.carrier == HostCarrier::automatic);
  CHECK_THAT(notes_of(outside), Catch::Contains("-H gpu1: not in this Slurm allocation"));
  Here without = slurm;
  without.has_srun = false;
  const LaunchPlan by_ssh = without.plan({});
  CHECK(by_ssh.ssh.carrier == HostCarrier::automatic);
  CHECK_THAT(notes_of(by_ssh), Catch::Contains("there is no srun in PATH"));
  // Named, it is called; that it is not there is then told for each host.
  CHECK(without.opened_by({"--ssh", "srun"}) == HostCarrier::srun);
  // No allocation, or nothing to open.
  const LaunchPlan plain = Here{}.plan({"-H", "tux1:1"});
  CHECK(plain.ssh.carrier == HostCarrier::automatic);
  CHECK(notes_of(plain).find("srun") == std::string::npos);
  CHECK(slurm.opened_by({"-H", "localhost:2"}) == HostCarrier::automatic);
  CHECK_NOTHROW(Here{}.plan({"--ssh", "srun", "-np", "2"}));
}

TEST_CASE("--ssh srun says what it cannot do", "[opening]") {
  const Here slurm = in_allocation();
  const auto with = [](const Here& here, std::vector<std::string> args) {
    args.insert(args.begin(), {"--ssh", "srun"});
    return here.plan(std::move(args));
  };
  CHECK_THROWS_WITH(with({}, {"-H", "tux1:1"}),
                    "--ssh srun: this is no Slurm allocation (SLURM_JOB_ID is not set); run hvdrun "
                    "within salloc or sbatch");
  CHECK_THROWS_WITH(with(slurm, {"-H", "tux1:1,gpu1:1"}),
                    "-H gpu1: not in this Slurm allocation (SLURM_JOB_NODELIST 'tux[0-2]'), and "
                    "srun reaches no other host");
  CHECK_THROWS_WITH(with(slurm, {"-H", "you@tux1:77:1"}),
                    "-H you@tux1:77: srun takes no user and no port; write tux1, or --ssh openssh");
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"-p", "77"}, {"-i", "key"}, {"--ssh-args", "-4"}, {"--accept-new-host-keys"}})
    CHECK_THROWS_WITH(with(slurm, more), Catch::Contains("takes no other options for ssh"));
}

TEST_CASE("a command with {host} says what it has no place for", "[opening]") {
  const auto plan = [](const std::string& command, const std::string& hosts,
                       std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--ssh", command, "-H", hosts});
    return Here{}.plan(std::move(more));
  };
  CHECK_THROWS_WITH(plan("reach {host} --", "gpu1:1,you@gpu2:1"),
                    "-H you@gpu2: the command of --ssh has no place for a user; write {user} into "
                    "it, as {host} is, or leave 'you@' out");
  CHECK_THROWS_WITH(plan("reach {user}@{host} --", "gpu1:77:1"),
                    "-H gpu1:77: the command of --ssh has no place for a port; write {port} into "
                    "it, as {host} is, or leave ':77' out");
  CHECK_THROWS_WITH(plan("reach {host} --", "gpu1:1", {"-p", "77"}),
                    Catch::Contains("--ssh with {host} takes no other options"));
  const LaunchPlan both =
      plan("reach -p{port} {user}@{host} {command}", "gpu1:1,you@gpu2:77:1,me@gpu3:1");
  CHECK(command_line(both, 0) == "reach -p22 me@gpu1 x");
  CHECK(command_line(both, 1) == "reach -p77 you@gpu2 x");
  CHECK(command_line(both, 2) == "reach -p22 me@gpu3 x");
  CHECK(command_line(plan("reach {host}:{port}", "gpu1:1,gpu2:5:1", {"-p", "9"}), 0) ==
        "reach gpu1:9 sh -c x");
  // This machine needs none.
  CHECK_NOTHROW(plan("reach {host} --", "me@localhost:1,gpu1:1"));
}

}  // namespace
}  // namespace hvdrun
