// From what the coordinator says is to be started to ranks that run, or did not start.
#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/host/rank_environment.h"
#include "common/net/hmac_sha256.h"
#include "common/net/host_addresses.h"
#include "common/process/program_check.h"
#include "worker/agent/agent.h"
#include "worker/agent/ranks/oom_count.h"
#include "worker/agent/ranks/worker_pipes.h"

namespace hvdrun {

// Every host is asked about its programs before any of them starts one. Reading the files of a
// stuck file system takes until the coordinator's patience ends.
void Agent::check_launch(const Launch& message, std::uint32_t epoch) {
  if (launched_ || checked_ || epoch == 0) return give_up();
  epoch_ = epoch;
  std::vector<std::string> programs;
  for (const RankPlace& slot : message.slots) {
    const auto& argv = argv_of(message.argv, message.programs, slot.rank);
    std::string program = argv.empty() ? "" : argv.front();
    if (std::find(programs.begin(), programs.end(), program) == programs.end())
      programs.push_back(std::move(program));
  }
  LaunchChecked answer;
  if (const auto problem =
          check_programs(programs, {message.env, message.cwd, message.size, message.allow_mpi})) {
    answer.exit_code = static_cast<std::uint32_t>(problem->exit_code);
    answer.text = problem->text.substr(0, limits::kMaxTrouble);
  }
  up(answer);
  checked_ = message;
}

void Agent::launch(const Launch& message, std::uint32_t epoch) {
  if (launched_ || epoch == 0) return give_up();
  launched_ = true;
  epoch_ = epoch;
  WorkerServerOptions options;
  options.job_id = bootstrap_.job_id;
  options.name = workers_address();
  options.epoch = epoch;
  options.usable_cores = cores_;
  if (!message.host_address.empty()) {
    // Workers never see the job's secret.
    options.data_key = hmac_sha256(bootstrap_.secret, "data " + std::to_string(epoch));
    options.host_address = message.host_address;
    options.encrypt_data = bootstrap_.encrypt_data;
    options.ports = {bootstrap_.first_port, bootstrap_.last_port};
  }
  options.ranks = message.slots;
  options.elastic = message.elastic;
  options.joins_later = message.comes_back;
  if (message.elastic) {
    again_ = message;
    watch_for_leave();
  }
  options.rank_started = [this](pid_t pid) {
    const auto worker = workers_.find(pid);
    return worker != workers_.end() ? std::optional(worker->second.rank) : std::nullopt;
  };
  options.stall_warning = message.stall_warning_ms;
  options.stall_shutdown = message.stall_shutdown_ms;
  options.surveyed = [this](HostSurvey::Answer answer) { send_pictures(std::move(answer)); };
  options.trouble = [this](const std::string& text) {
    up(Log{LogLevel::warn, bootstrap_.host_name + ": " + text});
  };
  options.send_up = [this](std::string frame) {
    if (control_) control_->send_bytes(std::move(frame));
  };
  options.slot_died = [this](std::uint32_t slot) { slot_died(slot); };
  const auto timeline = [this](auto said) {
    timeline_.add(std::move(said));
    move_timeline();
  };
  options.timeline_batch = timeline;
  options.timeline_control = timeline;
  const std::string name = options.name;
  if (!message.host_address.empty())
    debug("its address is " + message.host_address + ", on interface " +
          interface_of(message.host_address));
  workers_server_ = std::make_unique<WorkerServer>(io_, std::move(options));
  if (message.env_horovod && message.horovod_port == 0 && !serve_horovod(message)) return;
  if (!message.slots.empty()) pump_.set_ranks(message.slots.size());
  if (bootstrap_.sync_apart) sync_files(message);
  if (!message.comes_back)
    for (const RankPlace& slot : message.slots) start_worker(message, slot, name);
  oom_kills_ = oom_kill_count();
}

// Where this host is alone, but others may come, its address may be loopback's yet. What a rank is
// told stays for its life: so it is the way to wherever they may be.
std::string Agent::interface_for_others(const Launch& message) {
  // An address that is nobody's (RFC 5737): nothing is sent.
  constexpr const char* kElsewhere = "192.0.2.1";
  std::string here = interface_of(message.host_address);
  if (here != "lo" || message.host_count > 1) return here;
  const std::string way = interface_of(address_towards(kElsewhere));
  return way.empty() ? here : way;
}

void Agent::sync_files(const Launch& message) {
  // The one that the ranks have may be of hvdrun's machine alone.
  std::vector<std::string> parents;
  for (const Environment* const env : {&message.host_env, &message.env})
    if (const char* const folder = find_variable(*env, "TMPDIR");
        folder != nullptr && *folder == '/')
      parents.emplace_back(folder);
  parents.emplace_back("/tmp");
  try {
    files_ = std::make_unique<FileSync>(
        io_, make_sync_folder(parents, bootstrap_.job_id, bootstrap_.host_index));
  } catch (const std::system_error& e) {
    no_files_ = e.code();
    return;
  }
  if (output_) files_->set_viewer(output_);
}

bool Agent::gets_input(std::uint32_t rank) const {
  return bootstrap_.input == InputFor::all_ranks ||
         (bootstrap_.input == InputFor::one_rank && bootstrap_.input_rank == rank);
}

void Agent::start_worker(const Launch& message, const RankPlace& slot, const std::string& agent,
                         std::uint32_t start, bool later) {
  WorkerPlace place;
  place.job_id = bootstrap_.job_id;
  place.agent = agent;
  place.host_name = bootstrap_.host_name;
  place.epoch = epoch_;
  place.start = start;
  place.is_late = later;
  static_cast<RankPlace&>(place) = slot;
  place.node_rank = message.node_rank;
  place.node_count = message.host_count;
  place.usable_cores = cores_;
  place.master_addr = message.master_addr;
  place.master_port = message.master_port;
  place.compat.torch = message.env_torch;
  place.compat.mpi_ids = message.env_mpi_ids;
  place.horovod = horovod_place(message, slot);
  place.host_address = message.host_address;
  place.sync_folder = files_ ? files_->folder() : bootstrap_.sync_folder;
  place.interface = message.host_address.empty() ? "lo" : interface_for_others(message);

  SpawnOptions options;
  options.argv = argv_of(message.argv, message.programs, slot.rank);
  options.env = worker_environment(message.env, place, message.host_env, own_environment());
  options.cwd = message.cwd;
  options.new_session = true;
  options.descriptor_limit = descriptor_limit_;
  const char* const path = find_variable(options.env, "PATH");
  const std::string program = options.argv.empty() ? "" : options.argv.front();
  std::error_code ec = find_program(
      program, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", options.cwd, options.path);
  const bool has_input = !later && gets_input(slot.rank);
  WorkerPipes pipes;
  Worker worker{slot.rank, {}};
  std::string why;
  if (const std::error_code no_pipe = ec ? std::error_code() : pipes.open(has_input)) {
    ec = no_pipe;
    why = "a pipe for its output or input: " + fault_text(ec);
  } else if (no_files_) {
    ec = no_files_;
    why = "its folder for --sync-dir, in $TMPDIR or /tmp: " + fault_text(ec);
  } else {
    options.fds = {
        {pipes.in_read.get(), 0}, {pipes.out_write.get(), 1}, {pipes.err_write.get(), 2}};
    if (!ec) ec = spawn(options, worker.process);
    if (ec) why = start_fault(program, options.path, ec, {options.env, options.cwd});
  }
  if (ec) {
    up(RankExited{slot.rank, 0, ExitKind::not_started, static_cast<std::uint32_t>(ec.value()),
                  ladder_.started(), false, why.substr(0, limits::kMaxTrouble)});
    workers_server_->rank_exited(slot.rank, "it could not start");
    if (has_input && output_) output_->send(InputClosed{slot.rank});
    return;
  }
  pump_.add(slot.rank, OutputStream::out, std::move(pipes.out_read), start);
  pump_.add(slot.rank, OutputStream::err, std::move(pipes.err_read), start);
  if (has_input)
    input_.add(slot.rank, std::move(pipes.in_write),
               std::min(limits::kInputCredit, limits::kMaxInputOfHost / message.slots.size()));
  up(RankStarted{slot.rank, static_cast<std::uint32_t>(worker.process.pid)});
  debug("rank " + std::to_string(slot.rank) + " is process " + std::to_string(worker.process.pid));
  workers_.emplace(worker.process.pid, std::move(worker));
  if (looks_at_ranks()) arm_timer();
}

}  // namespace hvdrun
