#include "cli/plan/opening_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cli/hosts/slurm_hosts.h"
#include "cli/plan/host_plan.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

std::string in_list(const Options& options, const std::string& name, const HostLogin& login) {
  return options.hosts_where + " " + spell_host(name, login) + ": ";
}

// A login that has no place in the command would be left out without a word.
void plan_template(const Options& options, LaunchPlan& plan) {
  const auto missing = [&](std::size_t host, const std::string& what, const std::string& given) {
    throw UsageError(in_list(options, plan.spec.hosts()[host].name, plan.logins[host]) +
                     "the command of --ssh has no place for a " + what + "; write {" + what +
                     "} into it, as {host} is, or leave '" + given + "' out");
  };
  for (std::size_t i = 0; i < plan.spec.hosts().size(); ++i) {
    if (!plan.remote[i]) continue;
    HostLogin& login = plan.logins[i];
    if (!login.user.empty() && !takes_user(plan.ssh)) missing(i, "user", login.user + "@");
    if (login.port != 0 && !takes_port(plan.ssh))
      missing(i, "port", ":" + std::to_string(login.port));
    plan.complete_login(login);
  }
}

// The reason why srun cannot open the other hosts; empty: it can.
std::string not_by_srun(const Options& options, const Surroundings& here, const LaunchPlan& plan) {
  const auto variable = [&here](const char* name) {
    const char* const value = find_variable(here.env, name);
    return std::string(value != nullptr ? value : "");
  };
  if (variable("SLURM_JOB_ID").empty())
    return "--ssh srun: this is no Slurm allocation (SLURM_JOB_ID is not set); run hvdrun within "
           "salloc or sbatch";
  std::string problem;
  const auto components = slurm_components(here.env, problem);
  if (!components) return "--ssh srun: " + problem;
  const auto names = slurm_nodes(*components);
  std::string nodes;
  for (const SlurmComponent& component : *components)
    nodes += (nodes.empty() ? "" : ",") + component.nodes;
  for (std::size_t i = 0; i < plan.spec.hosts().size(); ++i) {
    if (!plan.remote[i]) continue;
    const std::string& name = plan.spec.hosts()[i].name;
    if (plan.logins[i].is_given())
      return in_list(options, name, plan.logins[i]) + "srun takes no user and no port; write " +
             spell_host(name, {}) + ", or --ssh openssh";
    if (!names.contains(name))
      return in_list(options, name, {}) + "not in this Slurm allocation (" +
             (components->empty() ? "SLURM_JOB_NODELIST" : slurm_hosts_where(*components)) + " " +
             quoted_word(nodes) + "), and srun reaches no other host";
  }
  return {};
}

// In a job of several components srun reaches the nodes of one only, which must be named.
void name_components(const Surroundings& here, LaunchPlan& plan) {
  std::string problem;
  const auto components = slurm_components(here.env, problem);
  if (!components || components->empty() || components->front().suffix.empty()) return;
  const auto nodes = slurm_nodes(*components);
  for (std::size_t i = 0; i < plan.spec.hosts().size(); ++i)
    if (const auto node = nodes.find(plan.spec.hosts()[i].name);
        plan.remote[i] && node != nodes.end())
      plan.logins[i].component = node->second;
}

bool has_options_of_ssh(const SshOptions& ssh) {
  return ssh.port || !ssh.identity_file.empty() || !ssh.arguments.empty() ||
         ssh.accept_new_host_keys;
}

void plan_srun(const Options& options, const Surroundings& here, LaunchPlan& plan) {
  const bool asked = plan.ssh.carrier == HostCarrier::srun;
  std::string why_not = not_by_srun(options, here, plan);
  if (asked && !why_not.empty()) throw UsageError(why_not);
  if (!asked && find_variable(here.env, "SLURM_JOB_ID") == nullptr) return;
  if (!asked && has_options_of_ssh(plan.ssh)) why_not = "there are options for ssh";
  if (!asked && why_not.empty() && !(here.is_program && here.is_program("srun")))
    why_not = "there is no srun in PATH";
  if (!why_not.empty()) {
    plan.notes.push_back("the other hosts are not opened by srun: " + why_not);
    return;
  }
  plan.ssh.carrier = HostCarrier::srun;
  plan.ssh.program = {"srun"};
  name_components(here, plan);
}

}  // namespace

void plan_opening(const Options& options, const Surroundings& here, LaunchPlan& plan) {
  plan.ssh = options.ssh;
  plan.ssh.waits_for_hosts = options.start_timeout_given;
  if (const std::string fault = ssh_options_fault(plan.ssh); !fault.empty())
    throw UsageError(fault);
  plan.complete_login = [ssh = plan.ssh, user = here.user](HostLogin& login) {
    if (!is_template(ssh)) return;
    if (login.user.empty() && takes_user(ssh) && user) login.user = user();
    if (login.port == 0 && takes_port(ssh)) login.port = ssh.port.value_or(kSshPort);
  };
  const bool others_may_come = options.max_np || options.discovery_script;
  if (!others_may_come &&
      std::find(plan.remote.begin(), plan.remote.end(), true) == plan.remote.end())
    return;
  if (is_template(plan.ssh)) plan_template(options, plan);
  if (plan.ssh.carrier == HostCarrier::srun || plan.ssh.carrier == HostCarrier::automatic)
    plan_srun(options, here, plan);
}

}  // namespace hvdrun
