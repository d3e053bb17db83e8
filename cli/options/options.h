// The user's wishes: the command line, HVDRUN_* variables and a configuration file, merged. The
// options themselves are rows of cli/options/option_table.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/hosts/offered_addresses.h"
#include "cli/options/gpu_option.h"
#include "cli/options/ssh_options.h"
#include "cli/text/user_errors.h"
#include "common/base/limits.h"
#include "common/host/rank_environment.h"
#include "common/wire/base_messages.h"

namespace hvdrun {

enum class ControlTransport { unix_socket, tcp };
enum class ColorMode { automatic, always, never };

// The ranks that get hvdrun's own stdin.
struct StdinTo {
  enum class Who { none, one, all } who = Who::none;
  std::uint32_t rank = 0;  // with `one`
  bool given = false;      // by the user: nothing needs to be said of it
};

struct OutputOptions {
  std::string tag = "on";  // --tag-output: "on", "off", or a template
  bool timestamps = false;
  std::string folder;  // --output-filename; empty: no files
  bool fold = false;
  ColorMode color = ColorMode::automatic;
  StdinTo stdin_to;
};

// One rung of --grace: send the signal, then wait that long for the ranks to end.
struct LadderStep {
  int signal = 0;
  std::chrono::milliseconds wait{};
};

// hvdrun -np 1 ./a : -np 3 ./b: what stands behind a colon.
struct OptionsPart {
  std::uint32_t np = 0;
  std::vector<std::string> command;
};

// One object, in an order for readers. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Options {
  std::optional<std::uint32_t> np;
  std::optional<std::string> hosts;       // as given with -H
  std::optional<std::string> hostfile;    // its path; never together with `hosts`
  std::string hosts_where = "-H";         // how either was given, for messages
  std::set<std::string> without_hosts;    // of these, by name: lost before the job starts again
  std::optional<std::string> allocation;  // the Slurm job that the hosts are of
  bool oversubscribe = false;             // more ranks than slots are fine
  std::vector<std::string> exports;       // -x NAME, NAME=VALUE or a pattern
  std::vector<std::string> env_files;     // --env-file
  std::optional<std::uint32_t> min_np;    // --min-np: the job is elastic
  std::optional<std::chrono::milliseconds> elastic_timeout;
  std::optional<std::uint32_t> max_np;
  std::optional<std::uint32_t> reset_limit;
  std::optional<std::pair<std::chrono::seconds, std::chrono::seconds>> cooldown;
  std::optional<std::string> discovery_script;  // in place of `hosts` and `hostfile`
  std::optional<std::uint32_t> slots_per_host;  // of hosts that it lists without a number
  // The ranks of each host (-N), however many slots it has, and how that was given: "-N 4".
  std::optional<std::uint32_t> per_host;
  std::string per_host_where;
  // Set for the ranks by options that stand for a variable, before `exports`.
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> unset;  // variables that the ranks do not find, unless set above
  GpuOption gpus;
  EnvCompat env_compat;
  ControlTransport control = ControlTransport::unix_socket;
  bool every_host_local = false;  // --transport local
  std::chrono::milliseconds start_timeout = limits::kStartTimeout;
  bool start_timeout_given = false;  // then hosts that are not there yet are waited for
  std::chrono::milliseconds grace = limits::kGrace;  // with a ladder: its waits together
  std::vector<LadderStep> ladder;                    // empty: TERM, `grace`, KILL; ends with KILL
  std::chrono::milliseconds lease = limits::kLease;
  std::optional<std::chrono::milliseconds> timeout;  // of the whole job
  std::uint32_t max_restarts = 0;                    // of the whole job, when it fails
  Isolation isolation = Isolation::automatic;
  OutputOptions output;
  std::string events_file;  // --events; empty: none
  std::string sync_folder;  // --sync-dir; empty: none
  std::string folder;       // --chdir; empty: where hvdrun is
  SshOptions ssh;
  NetworkOptions network;
  std::string config_file;
  bool allow_mpi = false;  // start a program linked with MPI all the same
  bool dry_run = false;
  bool json = false;
  std::vector<std::string> warnings;  // what was asked for and is not done
  std::vector<std::string> notes;     // what was accepted and has no effect, for --verbose
  std::string generate;               // man, bash, zsh or fish
  bool verbose = false;
  bool version = false;
  bool check_build = false;
  bool help = false;
  std::string help_topic;  // --help TOPIC; empty: the first page
  // A word of hvdrun's own in place of the program (kCommandWords); `command` has what follows it.
  std::string command_word;
  std::vector<std::string> command;  // the program and its own arguments
  std::vector<OptionsPart> parts;    // behind the first one, which has np and command
};

// `args` without argv[0]. The first argument that is neither an option nor an option's value
// begins the program, but for NAME=VALUE, which is as -x NAME=VALUE; nothing from there on is
// looked at. A word of hvdrun's own (status) is one
// only as the very first argument. A colon that -np and a number follow begins another part, unless
// `--` stands before the first program. `env` is asked for HVDRUN_<OPTION>. The command line beats
// the environment, which beats --config-file (read here). Throws UsageError.
Options parse_options(const std::vector<std::string>& args, const Environment& env = {});

}  // namespace hvdrun
