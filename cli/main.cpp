#include <cerrno>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <optional>
#include <signal.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "cli/hosts/this_machine.h"
#include "cli/hosts_command.h"
#include "cli/openers/client_process.h"
#include "cli/options/build_info.h"
#include "cli/options/explain.h"
#include "cli/options/option_documents.h"
#include "cli/options/option_help.h"
#include "cli/options/options.h"
#include "cli/output/output_columns.h"
#include "cli/output/own_output.h"
#include "cli/plan/dry_run.h"
#include "cli/plan/launch_plan.h"
#include "cli/plan/working_folder.h"
#include "cli/run/host_watch.h"
#include "cli/run/job_run.h"
#include "cli/run/preflight.h"
#include "cli/run/restart_record.h"
#include "cli/status_command.h"
#include "cli/text/log.h"
#include "common/base/exit_code.h"
#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/process/kernel_check.h"

namespace hvdrun {
namespace {

// Started with one of them closed, the next socket would take its number. What is written to a
// closed stdout is lost, and the writes say so; nobody could be told of a closed stderr.
void open_standard_files() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 &&
        ::open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) < 0)  // NOLINT: for the children too
      ::_exit(exit_code::kInternal);
}

// Whoever started us may have blocked it, and all that is forked from here would wait in vain for
// its children's ends.
void unblock_child_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

Surroundings look_around() {
  Surroundings here;
  here.env = own_environment();
  here.cwd = working_folder(find_variable(here.env, "PWD"));
  here.plain_cwd = plain_working_folder();
  here.columns = stdout_columns();
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  here.hostname = name;
  here.count_slots = count_slots;
  here.user = own_user_name;
  here.is_program = is_program;
  here.look_up = [](const std::vector<std::string>& names) {
    return look_up_own_names(names, limits::kNameLookUp);
  };
  here.list_hosts = read_once;
  here.pause_listing = [] { std::this_thread::sleep_for(kListPause); };
  return here;
}

int shown(const std::string& text) {
  print(text);
  return exit_code::kOk;
}

int start(const Options& options, const Surroundings& here, LaunchPlan plan,
          const std::optional<RestartRecord>& record) {
  if (!record) {
    for (const std::string& warning : plan.warnings) log_line(LogLevel::warn, warning);
    for (const std::string& note : plan.notes) log_line(LogLevel::debug, note);
  }
  if (const auto problem = starts_ranks(plan, false) ? preflight(plan.spec) : std::nullopt) {
    std::fprintf(stderr, "hvdrun: %s\n", problem->text.c_str());
    return problem->exit_code;
  }
  if (options.dry_run)
    return shown(options.json ? plan_as_json(plan, here.env) : describe_plan(plan, here.env));
  if (const std::string missing = missing_kernel_feature(); !missing.empty())
    throw HostError(missing);
  return run_job(std::move(plan), record);
}

int run(const std::vector<std::string>& args) {
  const auto record = take_restart_record();
  Surroundings here = look_around();
  const Options options = parse_options(args, here.env);
  if (options.help) return shown(help_text(options.help_topic));
  if (options.version) return shown(version_text() + "\n");
  if (options.check_build) return shown(build_text());
  if (!options.generate.empty()) return shown(option_document(options.generate));
  if (options.command_word == "explain") return shown(explain_exit_code(options.command));
  set_verbose_log(options.verbose);
  if (options.command_word == "ps") return run_ps();
  if (options.command_word == "status")
    return run_status(options.command.empty() ? "" : options.command.front());
  if (options.command_word == "hosts") return run_hosts(options.command);
  if (options.command_word == "reload") return run_reload(options.command);
  if (!options.command_word.empty())
    throw UsageError("hvdrun " + options.command_word + " is not in this version; a program of " +
                     "that name is started by hvdrun -- " + options.command_word);
  if (!record) return start(options, here, make_plan(options, here), record);
  try {
    return start(options, here, plan_of_restart(options, here, *record), record);
  } catch (const std::exception& e) {
    return not_started_again(*record, options, e.what());
  }
}

}  // namespace
}  // namespace hvdrun

int main(int argc, char** argv) {
  using namespace hvdrun;
  open_standard_files();
  unblock_child_signals();
  try {
    const int code = run({argv + 1, argv + argc});
    if (code == exit_code::kOk) confirm_output();
    return code;
  } catch (const UsageError& e) {
    std::fprintf(stderr, "hvdrun: %s\n", e.what());
    return exit_code::kUsage;
  } catch (const HostError& e) {
    std::fprintf(stderr, "hvdrun: %s\n", e.what());
    return exit_code::kHost;
  } catch (const OutputError& e) {
    std::fprintf(stderr, "hvdrun: %s\n", e.what());
    return exit_code::kOutput;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hvdrun: %s\n", fault_text(e).c_str());
    const std::error_code ec = code_of(e);
    const int error = ec.category() == std::system_category() ? ec.value() : 0;
    const bool later = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
    return later ? exit_code::kTryAgain : exit_code::kInternal;
  }
}
