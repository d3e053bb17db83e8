// The plan of a launch, what will be started where: the options, checked whole before anything
// starts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/hosts/host_item.h"
#include "cli/hosts/host_source.h"
#include "cli/options/options.h"
#include "cli/text/user_errors.h"
#include "cli/timeline/timeline_sink.h"
#include "coordinator/job_spec.h"

namespace hvdrun {

// --sync-dir, or OCI__SYNC_DIR of hvdrun's own environment.
struct SyncPlan {
  std::string folder;    // absolute, on this machine; empty: none
  std::string where;     // how it was given
  bool is_used = false;  // it is to be there: by the user's word, or as other hosts' files come
};

// --max-restarts.
struct RestartPlan {
  std::uint32_t most = 0;
  std::uint32_t count = 0;     // of those that have been
  std::uint32_t first_np = 0;  // ranks of the first start
};

struct LaunchPlan {
  JobSpec spec;
  RestartPlan restarts;
  HostSource source;               // of hosts that come and go; none: they are those of spec
  std::vector<HostEntry> entries;  // what it said first
  std::vector<std::uint32_t> entry_hosts;  // the host that each entry is
  bool every_host_local = false;           // --transport local
  // For each whether it is this machine. May take limits::kNameLookUp.
  std::function<std::vector<bool>(const std::vector<HostEntry>&)> find_this_machine;
  std::vector<bool> remote;       // for each host of spec: another machine, opened as `ssh` says
  std::vector<HostLogin> logins;  // and how, before what `ssh` says
  SshOptions ssh;
  std::function<void(HostLogin&)> complete_login;  // with what a command of --ssh has places for
  NetworkOptions network;
  ControlTransport control{};
  bool verbose = false;
  OutputOptions output;
  Isolation isolation = Isolation::automatic;
  std::string events_file;
  TimelineOptions timeline;
  SyncPlan sync;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // for --verbose
};

struct Surroundings {
  Environment env;                             // of hvdrun
  std::string cwd;                             // working_folder()
  std::string plain_cwd;                       // plain_working_folder()
  std::uint32_t columns = 0;                   // of the terminal that stdout is; 0: it is none
  std::string hostname;                        // of this machine
  std::function<std::uint32_t()> count_slots;  // of this machine; asked when nothing says how many
  std::function<std::string()> user;           // whose process this is; asked when a host has one
  std::function<bool(const std::string&)> is_program;  // in PATH; asked within a Slurm allocation
  // For each name whether it is this machine's; none: only localhost, hostname and addresses are.
  std::function<std::vector<bool>(const std::vector<std::string>&)> look_up;
  // A source as it is now, and the next moment to ask it; none: sources are not asked.
  std::function<HostListing(const HostSource&)> list_hosts;
  std::function<void()> pause_listing;
};

// GPUs (/dev/nvidia0, ...), or usable cores when there is none.
std::uint32_t count_slots();

// True where a rank is started on another machine, or (`remote` false) on this one. Hosts that get
// no rank do not count.
bool starts_ranks(const LaunchPlan& plan, bool remote);

// Throws UsageError or HostError. Reads the files that options name; the job id is random.
LaunchPlan make_plan(const Options& asked, const Surroundings& here);

}  // namespace hvdrun
