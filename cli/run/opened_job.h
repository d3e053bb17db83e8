// The processes of a job that the driver forks: the coordinator and, on this machine, the guards,
// with the driver's ends of their connections. They must be forked before there is an io_context.
// For other hosts all is prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/openers/host_relay.h"
#include "cli/openers/remote_start.h"
#include "cli/output/output_files.h"
#include "cli/output/synced_files.h"
#include "cli/plan/launch_plan.h"
#include "cli/run/event_log.h"
#include "cli/run/local_transport.h"
#include "cli/timeline/timeline_sink.h"

namespace hvdrun {

struct OpenedJob {
  std::unique_ptr<OutputFiles> files;      // with --output-filename
  std::unique_ptr<SyncedFiles> synced;     // with --sync-dir
  std::unique_ptr<TimelineSink> timeline;  // with --timeline-filename
  struct Host {
    std::uint32_t index = 0;
    bool remote = false;  // not opened yet: that needs an io_context
    std::string job;      // for a remote guard: its first frame
    OpenHost open;
    std::error_code fault;  // it could not be opened
    UniqueFd viewer_end;    // none with TCP
  };
  // The driver is a sub-reaper: all below it are the job's.
  bool reaps_all = false;
  std::string agent_program;
  std::shared_ptr<const AgentImage> agent_image;  // for remote hosts
  EventLog events;
  std::string secret;
  std::vector<Host> hosts;                     // those that get a rank
  UniqueFd viewer_listener;                    // with TCP
  std::vector<std::string> control_addresses;  // with TCP, where agents find the coordinator
  std::vector<std::string> output_addresses;   // and the viewer
  std::vector<std::string> offered;            // addresses of this machine, to agents elsewhere
  RelayPorts relay_ports;                      // for those that reach none of them
  std::uint64_t descriptor_limit{};            // as it was when hvdrun was started
  UniqueFd coordinator_end;
  Process coordinator;
};

// Checks what the plan names (files to write, the agent program) before it forks anything. Throws
// UsageError, HostError or std::system_error. The process must have one thread.
OpenedJob open_job(const LaunchPlan& plan);

// The first frame to the guard of a host that joins a job which runs.
std::string job_of_later_host(const LaunchPlan& plan, const OpenedJob& opened, std::uint32_t host);

}  // namespace hvdrun
