// Options of horovodrun, mpirun, srun and torchrun that hvdrun takes besides its own. Settings of
// Horovod's engine become the variables that horovodrun sets. Words that ask for what is so anyway
// are done or told (mpirun_words.h). Others are replaced by something else. Each row has its
// expectation in tests/unit/cli/options/test_habits.cpp.
#include <array>

#include "cli/options/mpirun_words.h"
#include "cli/options/option_table.h"
#include "cli/options/option_values.h"

namespace hvdrun {
namespace {

using O = Options;
using Use = OptionUse;

constexpr std::uint64_t kMaxWhole = 2147483647;  // Horovod reads an int

void set(O& options, const Use& use, std::string value) {
  options.variables.emplace_back(use.row->detail, std::move(value));
}

template <std::uint64_t lowest, std::uint64_t highest = kMaxWhole>
void set_whole(O& options, const Use& use) {
  set(options, use, std::to_string(to_whole(use, lowest, highest)));
}

template <int highest>
void set_real(O& options, const Use& use) {
  to_real(use, 0, highest);
  set(options, use, use.value());
}

void set_text(O& options, const Use& use) { set(options, use, to_text(use)); }
void set_switch(O& options, const Use& use) { set(options, use, use.on ? "1" : "0"); }
// As horovodrun, which sends a rank nothing of a tuner that is off; one that the user's environment
// switches on is off as well.
void set_autotune(O& options, const Use& use) {
  if (use.on) return set(options, use, "1");
  options.unset.emplace_back(use.row->detail);
}
void set_inverted(O& options, const Use& use) { set(options, use, use.on ? "0" : "1"); }

// For libhvd too, over whatever the user's environment has.
void set_both(O& options, const Use& use, const std::string& value) {
  const std::string name = use.row->detail;
  options.variables.emplace_back(name, value);
  options.variables.emplace_back("HVD" + name.substr(name.find('_')), value);
}

void set_timeline(O& options, const Use& use) { set_both(options, use, to_text(use)); }
void set_timeline_marks(O& options, const Use& use) { set_both(options, use, use.on ? "1" : "0"); }

void set_fusion_threshold(O& options, const Use& use) {
  set(options, use, std::to_string(to_whole(use, 0, kMaxWhole) << 20));
}

void set_log_level(O& options, const Use& use) {
  const auto same = [](const char* word) {
    return std::pair<std::string, std::string>(word, word);
  };
  set(options, use,
      to_choice<std::string>(use, {same("TRACE"), same("DEBUG"), same("INFO"), same("WARNING"),
                                   same("ERROR"), same("FATAL"), same("trace"), same("debug"),
                                   same("info"), same("warning"), same("error"), same("fatal")}));
}

// All uses together: NCCL takes the whole list, Gloo one interface.
void add_interfaces(O& options, const Use& use) {
  std::string all = to_text(use);
  for (const std::string& name : to_list(use)) options.network.interfaces.push_back(name);
  for (const auto& [name, value] : options.variables)
    if (name == "NCCL_SOCKET_IFNAME") all.insert(0, value + ",");
  options.variables.emplace_back("HOROVOD_GLOO_IFACE", all.substr(0, all.find(',')));
  options.variables.emplace_back("NCCL_SOCKET_IFNAME", std::move(all));
}

void do_nothing(O&, const Use&) {}

[[noreturn]] void refuse(O&, const Use& use) {
  throw UsageError("option '" + use.where + "': " + use.row->detail);
}

constexpr const char* kNotMpi = "hvdrun starts the ranks itself, without MPI; leave it out";
constexpr const char* kOneCommand =
    "hvdrun is started once and starts the ranks on all hosts; name those with -H (those of a "
    "Slurm allocation it knows), and leave this out";

// The layout of a row is easier to compare when every one has the same.
// clang-format off
constexpr auto kHorovodOptions = std::to_array<OptionRow>({
    {"fusion-threshold-mb", "--fusion-threshold-mb", "MB", Page::topic, Topic::horovod,
     "fusion buffer (64; Horovod: 128); 0: no fusion",
     set_fusion_threshold, false, "HOROVOD_FUSION_THRESHOLD"},
    {"cycle-time-ms", "--cycle-time-ms", "MS", Page::topic, Topic::horovod,
     "time between two cycles of the engine (1)",
     set_real<1'000'000>, false, "HOROVOD_CYCLE_TIME"},
    {"cache-capacity", "--cache-capacity", "N", Page::topic, Topic::horovod,
     "entries of the response cache (1024); 0: none",
     set_whole<0>, false, "HOROVOD_CACHE_CAPACITY"},
    {"hierarchical-allreduce", "--hierarchical-allreduce --no-hierarchical-allreduce", nullptr,
     Page::topic, Topic::horovod, "allreduce within hosts first, or never",
     set_switch, false, "HOROVOD_HIERARCHICAL_ALLREDUCE"},
    {"hierarchical-allgather", "--hierarchical-allgather --no-hierarchical-allgather", nullptr,
     Page::topic, Topic::horovod, "allgather within hosts first, or never",
     set_switch, false, "HOROVOD_HIERARCHICAL_ALLGATHER"},
    {"torus-allreduce", "--torus-allreduce --no-torus-allreduce", nullptr, Page::topic,
     Topic::horovod, "allreduce over a torus, or never",
     set_switch, false, "HOROVOD_TORUS_ALLREDUCE"},
    {"autotune", "--autotune --no-autotune", nullptr, Page::topic, Topic::horovod,
     "tune these parameters while running",
     set_autotune, false, "HOROVOD_AUTOTUNE"},
    {"autotune-log-file", "--autotune-log-file", "FILE", Page::topic, Topic::horovod,
     "write what was tuned to FILE",
     set_text, false, "HOROVOD_AUTOTUNE_LOG"},
    {"autotune-warmup-samples", "--autotune-warmup-samples", "N", Page::topic, Topic::horovod,
     "first samples that do not count (3)",
     set_whole<0>, false, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"},
    {"autotune-steps-per-sample", "--autotune-steps-per-sample", "N", Page::topic, Topic::horovod,
     "steps of a sample (10)",
     set_whole<1>, false, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"},
    {"autotune-bayes-opt-max-samples", "--autotune-bayes-opt-max-samples", "N", Page::topic,
     Topic::horovod, "samples of the search (20)",
     set_whole<1>, false, "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"},
    {"autotune-gaussian-process-noise", "--autotune-gaussian-process-noise", "X", Page::topic,
     Topic::horovod, "noise of the search, 0 to 1 (0.8)",
     set_real<1>, false, "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"},
    {"timeline-filename", "--timeline-filename", "FILE", Page::topic, Topic::horovod,
     "write the ranks' timeline to FILE, or DYNAMIC",
     set_timeline, false, "HOROVOD_TIMELINE"},
    {"timeline-mark-cycles", "--timeline-mark-cycles --no-timeline-mark-cycles", nullptr,
     Page::topic, Topic::horovod, "mark the cycles in it",
     set_timeline_marks, false, "HOROVOD_TIMELINE_MARK_CYCLES"},
    {"stall-check", "--stall-check --no-stall-check", nullptr, Page::topic, Topic::horovod,
     "warn of ranks that do not take part, or never",
     set_inverted, false, "HOROVOD_STALL_CHECK_DISABLE"},
    {"disable-stall-check", "--disable-stall-check", nullptr, Page::topic, Topic::horovod,
     "the same as --no-stall-check",
     set_switch, false, "HOROVOD_STALL_CHECK_DISABLE"},
    {"stall-check-warning-time-seconds", "--stall-check-warning-time-seconds", "SECONDS",
     Page::topic, Topic::horovod, "warn after this time (60); 0: never",
     set_whole<0>, false, "HOROVOD_STALL_CHECK_TIME_SECONDS"},
    {"stall-check-shutdown-time-seconds", "--stall-check-shutdown-time-seconds", "SECONDS",
     Page::topic, Topic::horovod, "end the job after this time, with 82 (0: never)",
     set_whole<0>, false, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"},
    {"mpi-threads-disable", "--mpi-threads-disable --no-mpi-threads-disable", nullptr, Page::topic,
     Topic::horovod, "no threads in MPI",
     set_switch, false, "HOROVOD_MPI_THREADS_DISABLE"},
    {"num-nccl-streams", "--num-nccl-streams", "N", Page::topic, Topic::horovod,
     "streams for NCCL (1)",
     set_whole<1>, false, "HOROVOD_NUM_NCCL_STREAMS"},
    {"thread-affinity", "--thread-affinity", "CORE", Page::topic, Topic::horovod,
     "cores of the background threads by local rank",
     set_text, false, "HOROVOD_THREAD_AFFINITY"},
    {"gloo-timeout-seconds", "--gloo-timeout-seconds", "SECONDS", Page::topic, Topic::horovod,
     "how long Gloo waits (30)",
     set_whole<1>, false, "HOROVOD_GLOO_TIMEOUT_SECONDS"},
    {"tcp", "--tcp", nullptr, Page::topic, Topic::horovod, "no InfiniBand for NCCL",
     set_switch, false, "NCCL_IB_DISABLE"},
    {"network-interfaces", "--network-interfaces --network-interface", "NAME,...", Page::topic,
     Topic::network, "interfaces to use, for Gloo and NCCL too",
     add_interfaces, true, "HOROVOD_GLOO_IFACE and NCCL_SOCKET_IFNAME"},
    {"log-level", "--log-level", "LEVEL", Page::topic, Topic::horovod,
     "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL",
     set_log_level, false, "HOROVOD_LOG_LEVEL"},
    {"log-with-timestamp", "--log-with-timestamp", nullptr, Page::topic, Topic::horovod,
     "time in Horovod's log lines",
     set_inverted, false, "HOROVOD_LOG_HIDE_TIME"},
    {"log-hide-timestamp",
     "--log-hide-timestamp --no-log-hide-timestamp --log-without-timestamp", nullptr, Page::topic,
     Topic::horovod, "no time in them",
     set_switch, false, "HOROVOD_LOG_HIDE_TIME"},

    {"gloo", "--gloo", nullptr, Page::topic, Topic::mpirun, "the only way here", do_nothing},
    {"allow-run-as-root", "--allow-run-as-root", nullptr, Page::topic, Topic::mpirun,
     "always allowed", do_nothing},
    {"disable-cache", "--disable-cache", nullptr, Page::topic, Topic::mpirun,
     "there is no cache", do_nothing},
    {"byslot", "--byslot", nullptr, Page::topic, Topic::mpirun,
     "ranks fill the hosts in order", do_nothing},
    {"ntasks-per-node", "--ntasks-per-node --nproc-per-node --nproc_per_node", "N", Page::topic,
     Topic::mpirun, "the same as -N N", take_ranks_per_host, true},
    {"pernode", "--pernode", nullptr, Page::topic, Topic::mpirun,
     "the same as -N 1", take_one_per_host},
    {"bind-to", "--bind-to", "WHAT", Page::topic, Topic::mpirun, "none; ranks are not bound to cores",
     take_bind_to},
    {"map-by", "--map-by", "WHAT", Page::topic, Topic::mpirun, "slot, or ppr:N:node as -N N",
     take_map_by},
    {"rank-by", "--rank-by", "WHAT", Page::topic, Topic::mpirun, "slot; ranks fill the hosts in order",
     take_rank_by},
    {"report-bindings", "--report-bindings", nullptr, Page::topic, Topic::mpirun,
     "there are no bindings", take_bindings_report},
    {"mca", "--mca --gmca", "NAME VALUE", Page::topic, Topic::mpirun,
     "a setting of Open MPI", take_mca, true,
     "a setting of Open MPI, which is not used; to pass it on: -x OMPI_MCA_NAME=VALUE"},

    {"mpi", "--mpi", nullptr, Page::hidden, Topic::mpirun, "", refuse, false, kNotMpi},
    {"jsrun", "--jsrun", nullptr, Page::hidden, Topic::mpirun, "", refuse, false, kNotMpi},
    {"mpi-args", "--mpi-args", "ARGS", Page::hidden, Topic::mpirun, "", refuse_mpi_args, false,
     "hvdrun starts the ranks itself, without mpirun, and takes many of its words as options of its "
     "own; write them so"},
    {"binding-args", "--binding-args", "ARGS", Page::hidden, Topic::mpirun, "", refuse, false,
     "hvdrun does not bind ranks to cores; leave it out, or start taskset or numactl, as in sh -c "
     "'exec taskset -c $HVD_LOCAL_RANK ./train'"},
    {"bynode", "--bynode --loadbalance", nullptr, Page::hidden, Topic::mpirun, "", refuse, false,
     kHostsInTurn},
    {"npersocket", "--npersocket", "N", Page::hidden, Topic::mpirun, "", refuse, false,
     "hvdrun counts the ranks of a whole host; write -N NUMBER"},
    {"display", "--display", "WHAT", Page::hidden, Topic::mpirun, "", refuse, false,
     "hvdrun --dry-run shows hosts, ranks and their environment"},
    {"display-map", "--display-map --display-allocation", nullptr, Page::hidden, Topic::mpirun, "",
     refuse, false, "hvdrun --dry-run shows hosts, ranks and their environment"},
    {"output", "--output", "WHAT", Page::hidden, Topic::mpirun, "", refuse, false,
     "write --tag-output, --prefix-output-with-timestamp or --output-filename DIR"},
    {"genv", "--genv --env", "NAME VALUE", Page::hidden, Topic::mpirun, "", refuse, false,
     "write -x NAME=VALUE"},
    {"genvlist", "--genvlist --envlist", "NAME,...", Page::hidden, Topic::mpirun, "", refuse, false,
     "hvdrun hands its whole environment on; leave it out"},
    {"nodes", "--nodes --nnodes", "N", Page::hidden, Topic::mpirun, "", refuse, false, kOneCommand},
    {"node-rank", "--node-rank --node_rank", "N", Page::hidden, Topic::mpirun, "", refuse, false,
     kOneCommand},
    {"master-addr", "--master-addr --master_addr", "HOST", Page::hidden, Topic::mpirun, "", refuse,
     false, "hvdrun sets MASTER_ADDR itself; leave it out, or write -x MASTER_ADDR=HOST"},
    {"master-port", "--master-port --master_port", "PORT", Page::hidden, Topic::mpirun, "", refuse,
     false, "hvdrun finds a free port; leave it out, or write -x MASTER_PORT=PORT"},
    {"rdzv", "--rdzv --rdzv-backend --rdzv_backend --rdzv-endpoint --rdzv_endpoint --rdzv-id "
     "--rdzv_id --rdzv-conf --rdzv_conf", "WHAT", Page::hidden, Topic::mpirun, "", refuse, false,
     kOneCommand},
    {"standalone", "--standalone", nullptr, Page::hidden, Topic::mpirun, "", refuse, false,
     "without -H it is this machine alone (in a Slurm allocation write -H localhost:4); leave it "
     "out"},
});
// clang-format on
}  // namespace

std::span<const OptionRow> horovod_options() { return kHorovodOptions; }

}  // namespace hvdrun
