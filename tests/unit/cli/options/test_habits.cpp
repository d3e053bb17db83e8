// Options that users bring along from horovodrun, mpirun, srun and torchrun: what each of them
// does. Whatever the table of options has of these has its line here.
#include <algorithm>
#include <sstream>

#include "cli/options/option_table.h"
#include "cli/plan/launch_plan.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

struct Habit {
  const char* row;   // of the table
  const char* line;  // before the program; ~ is a blank within a word
  // The change that it makes, whole: variables, "N=2", "oversubscribe". Nothing: it asks for what
  // is so anyway. Or a part of what the user is told, behind "warned: " or "refused: "; "noted: "
  // is for --verbose alone.
  const char* effect;
};

const Habit kHabits[] = {
    {"ranks-per-host", "-N 2", "N=2"},
    {"ranks-per-host", "-N2", "N=2"},
    {"ranks-per-host", "-npernode 2", "N=2"},
    {"ranks-per-host", "--npernode 2", "N=2"},
    {"ranks-per-host", "--ranks-per-host=2", "N=2"},
    {"ranks-per-host", "--ppn 2", "N=2"},
    {"ranks-per-host", "--perhost 2", "N=2"},
    {"ranks-per-host", "-N 0", "refused: -N '0': a whole number from 1"},
    {"ranks-per-host", "-N 2 -N 4", "N=4"},
    {"ranks-per-host", "-N 2 --ntasks-per-node 4",
     "refused: -N 2 and --ntasks-per-node 4: each says how many ranks a host gets (as -N of mpirun "
     "does, not of srun)"},
    {"ranks-per-host", "-N 4 --map-by ppr:2:node", "refused: -N 4 and --map-by ppr:2:node: each"},
    {"ranks-per-host", "-N 2 --map-by ppr:2:node", "N=2"},
    {"ntasks-per-node", "--ntasks-per-node 2", "N=2"},
    {"ntasks-per-node", "--ntasks-per-node=2", "N=2"},
    {"ntasks-per-node", "--nproc-per-node=2", "N=2"},
    {"ntasks-per-node", "--nproc_per_node 2", "N=2"},
    {"ntasks-per-node", "--nproc-per-node gpu", "refused: --nproc-per-node 'gpu': a number"},
    {"ntasks-per-node", "--nproc-per-node auto", "refused: a rank for each GPU or core"},

    {"fusion-threshold-mb", "--fusion-threshold-mb 10", "HOROVOD_FUSION_THRESHOLD=10485760"},
    {"cycle-time-ms", "--cycle-time-ms 2.5", "HOROVOD_CYCLE_TIME=2.5"},
    {"cache-capacity", "--cache-capacity 512", "HOROVOD_CACHE_CAPACITY=512"},
    {"hierarchical-allreduce", "--hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE=1"},
    {"hierarchical-allreduce", "--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE=0"},
    {"hierarchical-allgather", "--hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER=1"},
    {"hierarchical-allgather", "--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER=0"},
    {"torus-allreduce", "--torus-allreduce", "HOROVOD_TORUS_ALLREDUCE=1"},
    {"torus-allreduce", "--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE=0"},
    {"autotune", "--autotune", "HOROVOD_AUTOTUNE=1"},
    {"autotune", "--no-autotune", "without HOROVOD_AUTOTUNE"},
    {"autotune", "--no-autotune --autotune", "HOROVOD_AUTOTUNE=1"},
    {"autotune-log-file", "--autotune-log-file t.csv", "HOROVOD_AUTOTUNE_LOG=t.csv"},
    {"autotune-warmup-samples", "--autotune-warmup-samples 1", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES=1"},
    {"autotune-steps-per-sample", "--autotune-steps-per-sample 2",
     "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=2"},
    {"autotune-bayes-opt-max-samples", "--autotune-bayes-opt-max-samples 3",
     "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=3"},
    {"autotune-gaussian-process-noise", "--autotune-gaussian-process-noise 0.5",
     "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.5"},
    {"timeline-filename", "--timeline-filename t.json",
     "HOROVOD_TIMELINE=t.json HVD_TIMELINE=t.json"},
    {"timeline-mark-cycles", "--timeline-mark-cycles",
     "HOROVOD_TIMELINE_MARK_CYCLES=1 HVD_TIMELINE_MARK_CYCLES=1"},
    {"timeline-mark-cycles", "--no-timeline-mark-cycles",
     "HOROVOD_TIMELINE_MARK_CYCLES=0 HVD_TIMELINE_MARK_CYCLES=0"},
    {"stall-check", "--stall-check", "HOROVOD_STALL_CHECK_DISABLE=0"},
    {"stall-check", "--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE=1"},
    {"disable-stall-check", "--disable-stall-check", "HOROVOD_STALL_CHECK_DISABLE=1"},
    {"stall-check-warning-time-seconds", "--stall-check-warning-time-seconds 9",
     "HOROVOD_STALL_CHECK_TIME_SECONDS=9"},
    {"stall-check-shutdown-time-seconds", "--stall-check-shutdown-time-seconds 9",
     "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=9"},
    {"mpi-threads-disable", "--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE=1"},
    {"mpi-threads-disable", "--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE=0"},
    {"num-nccl-streams", "--num-nccl-streams 2", "HOROVOD_NUM_NCCL_STREAMS=2"},
    {"thread-affinity", "--thread-affinity 1", "HOROVOD_THREAD_AFFINITY=1"},
    {"gloo-timeout-seconds", "--gloo-timeout-seconds 60", "HOROVOD_GLOO_TIMEOUT_SECONDS=60"},
    {"tcp", "--tcp", "NCCL_IB_DISABLE=1"},
    {"network-interfaces", "--network-interfaces ib0,ib1",
     "HOROVOD_GLOO_IFACE=ib0 NCCL_SOCKET_IFNAME=ib0,ib1"},
    {"network-interfaces", "--network-interface ib0",
     "HOROVOD_GLOO_IFACE=ib0 NCCL_SOCKET_IFNAME=ib0"},
    {"log-level", "--log-level DEBUG", "HOROVOD_LOG_LEVEL=DEBUG"},
    {"log-with-timestamp", "--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME=0"},
    {"log-hide-timestamp", "--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME=1"},
    {"log-hide-timestamp", "--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME=0"},
    {"log-hide-timestamp", "--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME=1"},

    {"gloo", "--gloo", ""},
    {"allow-run-as-root", "--allow-run-as-root", ""},
    {"disable-cache", "--disable-cache", ""},
    {"byslot", "-byslot", ""},
    {"byslot", "--byslot", ""},
    {"pernode", "--pernode", "N=1"},
    {"pernode", "-pernode", "N=1"},
    {"bind-to", "-bind-to none", ""},
    {"bind-to", "--bind-to NONE", ""},
    {"bind-to", "--bind-to core",
     "warned: --bind-to core: ranks are not bound to cores; a line of"},
    {"bind-to", "-bind-to socket:overload-allowed", "warned: -bind-to socket:overload-allowed: "},
    {"map-by", "-map-by slot", ""},
    {"map-by", "--map-by slot:inherit", ""},
    {"map-by", "--map-by ppr:2:node", "N=2"},
    {"map-by", "--map-by PPR:2:NODE", "N=2"},
    {"map-by", "--map-by ppr:2:node:oversubscribe", "N=2 oversubscribe"},
    {"map-by", "--map-by slot:OVERSUBSCRIBE", "oversubscribe"},
    {"map-by", "--map-by :OVERSUBSCRIBE", "oversubscribe"},
    {"map-by", "--map-by slot:NOOVERSUBSCRIBE", ""},
    {"map-by", "--map-by node", "refused: --map-by 'node': the ranks of a host follow each other"},
    {"map-by", "--map-by node:PE=2", "refused: write -N NUMBER"},
    {"map-by", "--map-by slot:SPAN", "refused: ranks cannot be dealt out to the hosts in turn"},
    {"map-by", "--map-by ppr:2:socket", "refused: write -N NUMBER, or ppr:NUMBER:node"},
    {"map-by", "--map-by ppr:2", "refused: write ppr:NUMBER:node, as in ppr:4:node"},
    {"map-by", "--map-by ppr:x:node", "refused: write ppr:NUMBER:node"},
    {"map-by", "--map-by ppr:0:node", "refused: write ppr:NUMBER:node"},
    {"map-by", "--map-by core",
     "warned: --map-by core: ranks are not bound to a part of their host"},
    {"map-by", "--map-by slot:PE=4", "warned: ranks are not bound to several cores"},
    {"map-by", "--map-by seq", "refused: hvdrun fills the hosts in the order of -H or --hostfile"},
    {"map-by", "--map-by slot:ORDERED", "refused: 'ordered' is nothing that hvdrun can do"},
    {"map-by", "--map-by=", "refused: is empty"},
    {"rank-by", "--rank-by slot", ""},
    {"rank-by", "--rank-by fill", ""},
    {"rank-by", "--rank-by node",
     "refused: --rank-by 'node': the ranks of a host follow each other"},
    {"rank-by", "--rank-by span", "refused: ranks cannot be dealt out"},
    {"rank-by", "--rank-by socket:span", "refused: ranks cannot be dealt out"},
    {"rank-by", "--rank-by socket", "warned: --rank-by socket: ranks are not bound to a part"},
    {"rank-by", "--rank-by board:FILL", "warned: ranks are not bound"},
    {"rank-by", "--rank-by bogus", "refused: write slot"},
    {"rank-by", "--rank-by slot:bogus", "refused: write slot"},
    {"report-bindings", "--report-bindings", "warned: there is nothing to report"},
    {"mca", "-mca pml ob1", "noted: -mca pml ob1: a setting of Open MPI"},
    {"mca", "--mca btl ^openib", "noted: --mca btl ^openib: a setting of Open MPI"},
    {"mca", "-gmca coll tuned", "noted: a setting of Open MPI"},
    {"mca", "--gmca coll tuned", "noted: a setting of Open MPI"},
    {"mca", "-mca rmaps_base_mapping_policy ppr:2:node", "N=2"},
    {"mca", "-mca rmaps_base_mapping_policy node",
     "refused: -mca rmaps_base_mapping_policy 'node': the ranks of a host follow each other"},
    {"mca", "-mca rmaps_base_ranking_policy node",
     "refused: -mca rmaps_base_ranking_policy 'node'"},
    {"mca", "-mca hwloc_base_binding_policy none", ""},
    {"mca", "-mca hwloc_base_binding_policy core", "warned: ranks are not bound to cores"},
    {"mca", "-mca rmaps_ppr_n_pernode 2", "N=2"},
    {"mca", "-mca rmaps_base_n_pernode 2", "N=2"},
    {"mca", "-mca rmaps_base_pernode 1", "N=1"},
    {"mca", "-mca rmaps_ppr_pernode 0", ""},
    {"mca", "-mca rmaps_base_bynode 1",
     "refused: -mca rmaps_base_bynode '1': the ranks of a host follow each other"},
    {"mca", "-mca rmaps_base_bynode 0", "warned: -mca rmaps_base_bynode 0: a setting of mpirun"},
    {"mca", "-mca rmaps_base_schedule_policy node",
     "refused: -mca rmaps_base_schedule_policy 'node': the ranks of a host follow each other"},
    {"mca", "-mca rmaps_base_cpus_per_proc 4",
     "warned: -mca rmaps_base_cpus_per_proc 4: a setting of mpirun, which hvdrun does not read; "
     "hvdrun fills the hosts in the order of -H or --hostfile, and binds no rank"},
    {"mca", "-mca hwloc_base_cpu_list 0,1", "warned: a setting of mpirun"},
    {"mca", "-mca rmaps_base_oversubscribe 1", "oversubscribe"},
    {"mca", "-mca rmaps_base_oversubscribe 0", ""},
    {"mca", "-mca plm_rsh_args -p~77",
     "warned: -mca plm_rsh_args -p 77: a setting of mpirun, which "
     "hvdrun does not read; its word is --ssh-args"},
    {"mca", "-mca btl_tcp_if_include eth0", "warned: its word is --network-interfaces"},

    {"mpi", "--mpi", "refused: without MPI; leave it out"},
    {"jsrun", "--jsrun", "refused: without MPI; leave it out"},
    {"mpi-args", "--mpi-args=-x~A=1",
     "refused: as options of its own; write them so: hvdrun -x A=1"},
    {"mpi-args", "--mpi-args=", "refused: as options of its own; write them so"},
    {"binding-args", "--binding-args=-bind-to~core", "refused: taskset -c $HVD_LOCAL_RANK"},
    {"bynode", "--bynode", "refused: write -N NUMBER"},
    {"bynode", "-loadbalance", "refused: write -N NUMBER"},
    {"bynode", "--loadbalance", "refused: write -N NUMBER"},
    {"npersocket", "-npersocket 2", "refused: write -N NUMBER"},
    {"npersocket", "--npersocket 2", "refused: write -N NUMBER"},
    {"display", "--display map", "refused: hvdrun --dry-run shows"},
    {"display-map", "--display-map", "refused: hvdrun --dry-run shows"},
    {"display-map", "--display-allocation", "refused: hvdrun --dry-run shows"},
    {"output", "--output tag", "refused: write --tag-output, "},
    {"genv", "-genv A 1", "refused: write -x NAME=VALUE"},
    {"genv", "--genv A 1", "refused: write -x NAME=VALUE"},
    {"genv", "--env A 1", "refused: write -x NAME=VALUE"},
    {"genvlist", "--genvlist A,B", "refused: hands its whole environment on"},
    {"genvlist", "--envlist A,B", "refused: hands its whole environment on"},
    {"nodes", "--nodes 2", "refused: started once and starts the ranks on all hosts"},
    {"nodes", "--nnodes=2", "refused: started once and starts the ranks on all hosts"},
    {"node-rank", "--node-rank 1", "refused: started once"},
    {"node-rank", "--node_rank=1", "refused: started once"},
    {"master-addr", "--master-addr a", "refused: -x MASTER_ADDR=HOST"},
    {"master-addr", "--master_addr=a", "refused: -x MASTER_ADDR=HOST"},
    {"master-port", "--master-port 1", "refused: -x MASTER_PORT=PORT"},
    {"master-port", "--master_port=1", "refused: -x MASTER_PORT=PORT"},
    {"rdzv", "--rdzv a", "refused: started once"},
    {"rdzv", "--rdzv-backend=c10d", "refused: started once"},
    {"rdzv", "--rdzv_backend c10d", "refused: started once"},
    {"rdzv", "--rdzv-endpoint=a:1", "refused: started once"},
    {"rdzv", "--rdzv_endpoint a:1", "refused: started once"},
    {"rdzv", "--rdzv-id=1", "refused: started once"},
    {"rdzv", "--rdzv_id 1", "refused: started once"},
    {"rdzv", "--rdzv-conf=a=b", "refused: started once"},
    {"rdzv", "--rdzv_conf a=b", "refused: started once"},
    {"standalone", "--standalone", "refused: this machine alone"},
};

std::vector<std::string> words_of_line(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; text >> word;) {
    std::replace(word.begin(), word.end(), '~', ' ');
    words.push_back(word);
  }
  return words;
}

// All that a line changes, in words.
std::string effect_of(const std::string& line) {
  std::vector<std::string> words = words_of_line(line);
  words.emplace_back("./train");
  Options options;
  try {
    options = parse_options(words);
  } catch (const UsageError& e) {
    return std::string("refused: ") + e.what();
  }
  if (options.command != std::vector<std::string>{"./train"}) return "swallowed the program";
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : " ") + what; };
  for (const auto& [name, value] : options.variables) add(name + "=" + value);
  for (const std::string& name : options.unset) add("without " + name);
  if (options.per_host) add("N=" + std::to_string(*options.per_host));
  if (options.oversubscribe) add("oversubscribe");
  for (const std::string& warning : options.warnings) add("warned: " + warning);
  for (const std::string& note : options.notes) add("noted: " + note);
  return text;
}

TEST_CASE("each word of other launchers is done, needless, told of or refused", "[habits]") {
  for (const Habit& habit : kHabits) {
    const std::string effect = effect_of(habit.line);
    CAPTURE(habit.line, effect);
    const std::string expected = habit.effect;
    const auto colon = expected.find(": ");
    if (colon == std::string::npos) {
      CHECK(effect == expected);
      continue;
    }
    CHECK(effect.substr(0, colon + 2) == expected.substr(0, colon + 2));
    CHECK_THAT(effect, Catch::Contains(expected.substr(colon + 2)));
    CHECK(effect.find('\n') == std::string::npos);
  }
}

bool uses_spelling(const Habit& habit, std::string_view spelling) {
  const std::vector<std::string> words = words_of_line(habit.line);
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == spelling || word.starts_with(std::string(spelling) + "=");
  });
}

TEST_CASE("no word of other launchers is without an expectation", "[habits]") {
  std::vector<const OptionRow*> rows{find_option("-N")};
  for (const OptionRow& row : horovod_options()) rows.push_back(&row);
  CHECK(rows.size() > 55);
  for (const OptionRow* const row : rows)
    for (const std::string_view spelling : spellings_of(*row)) {
      CAPTURE(spelling);
      const bool expected =
          std::any_of(std::begin(kHabits), std::end(kHabits), [&](const Habit& habit) {
            return std::string_view(habit.row) == row->name && uses_spelling(habit, spelling);
          });
      CHECK(expected);
    }
  for (const Habit& habit : kHabits) {
    CAPTURE(habit.row);
    CHECK(find_option("--" + std::string(habit.row)) != nullptr);
  }
}

std::string refusal_of(const std::vector<std::string>& args) {
  try {
    parse_options(args);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("a bare --tag-output swallows no word", "[habits]") {
  for (const std::string option : {"--tag-output", "-tag-output"}) {
    CAPTURE(option);
    Options options = parse_options({option, "-np", "2", "./train"});
    CHECK(options.output.tag == "on");
    CHECK(options.np == 2U);
    options = parse_options({"-np", "2", option, "./train", "off"});
    CHECK(options.output.tag == "on");
    CHECK(options.command == std::vector<std::string>{"./train", "off"});
    options = parse_options({option, "--", "./train"});
    CHECK(options.command == std::vector<std::string>{"./train"});
    // Its last use counts, as ever.
    CHECK(parse_options({option, "off", option, "./train"}).output.tag == "on");
    for (const std::string tag : {"off", "on", "{rank}> ", "{{"})
      CHECK(parse_options({option, tag, "./train"}).output.tag == tag);
    CHECK(parse_options({option + "=> ", "./train"}).output.tag == "> ");
    // As other switches are written in variables and files.
    CHECK(parse_options({option + "=1", "./train"}).output.tag == "on");
    CHECK(parse_options({option + "=false", "./train"}).output.tag == "off");
    CHECK_THAT(refusal_of({option}), Catch::Contains("no program to run"));
  }
  CHECK_THROWS_WITH(parse_options({"--tag-output=", "x"}), Catch::Contains("is empty"));
}

TEST_CASE("no other option without a value takes a word that is none", "[habits]") {
  for (const std::string option : {"--color", "--stdin", "--gpus", "--isolation", "--control"}) {
    CAPTURE(option);
    CHECK_THAT(refusal_of({option, "./train"}), Catch::StartsWith(option + " './train': "));
  }
  const Options help = parse_options({"--help", "./train"});
  CHECK(help.help_topic.empty());
  CHECK(help.command == std::vector<std::string>{"./train"});
}

TEST_CASE("NAME=VALUE before the program is a variable", "[habits]") {
  Options options = parse_options({"-np", "2", "FOO=1", "_b2=x=y", "E=", "./train", "A=1"});
  CHECK(options.exports == std::vector<std::string>{"FOO=1", "_b2=x=y", "E="});
  CHECK(options.command == std::vector<std::string>{"./train", "A=1"});
  options = parse_options({"-x", "A=1", "A=2", "-np", "2", "./train"});
  CHECK(options.exports == std::vector<std::string>{"A=1", "A=2"});
  CHECK(options.np == 2U);
  for (const std::string program : {"./a=b", "=b", "1a=b", "a-b=c"})
    CHECK(parse_options({"-np", "2", program}).command == std::vector<std::string>{program});
  CHECK(parse_options({"--", "FOO=1", "x"}).command == std::vector<std::string>{"FOO=1", "x"});
  CHECK_THAT(refusal_of({"-np", "2", "FOO=1"}), Catch::Contains("no program to run"));
  CHECK_THAT(refusal_of({"-np", "1", "FOO=1", "./a", ":", "-np", "1", "./b"}),
             Catch::Contains("'FOO=1' before one of several programs"));
  CHECK_THAT(refusal_of({"-np", "1", "./a", ":", "-np", "1", "FOO=1", "./b"}),
             Catch::Contains("write env FOO=1"));
}

TEST_CASE("an option that is cut short is told its whole name", "[habits]") {
  const auto [args, part] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"--fusion-thresh", "64", "x"},
       "'--fusion-thresh'; options are written out: "
       "--fusion-threshold-mb"},
      {{"--fusion-thresh=64", "x"}, "written out: --fusion-threshold-mb"},
      {{"--stall-check-w", "9", "x"}, "written out: --stall-check-warning-time-seconds"},
      {{"--no-stall", "x"}, "written out: --no-stall-check"},
      {{"--network", "eth0", "x"}, "written out: --network-interfaces"},
      {{"--timeline", "t", "x"}, "which of --timeline-filename, --timeline-mark-cycles is it?"},
      {{"--host-disc", "f", "x"}, "written out: --host-discovery-script"},
      {{"--binding", "f", "x"}, "--binding-args of another launcher: hvdrun does not bind"},
      {{"--transp", "local", "x"}, "unknown option '--transp'; hvdrun --help all"},
      {{"--tag-outptu", "x"}, "did you mean --tag-output?"},
  }));
  CAPTURE(args);
  CHECK_THAT(refusal_of(args), Catch::Contains(part));
}

TEST_CASE("srun's --export is no name of a variable", "[habits]") {
  CHECK(parse_options({"--export=ALL", "x"}).exports.empty());
  CHECK(parse_options({"-x", "ALL", "x"}).exports == std::vector<std::string>{"ALL"});
  CHECK_THAT(refusal_of({"--export=NONE", "x"}), Catch::Contains("env -i"));
  CHECK_THAT(refusal_of({"--export=ALL,FOO=1", "x"}), Catch::Contains("one variable each"));
  CHECK(parse_options({"-x", "A=1,2", "x"}).exports == std::vector<std::string>{"A=1,2"});
}

Surroundings machine(Environment env = {}) {
  Surroundings here;
  here.env = std::move(env);
  here.cwd = "/tmp";
  here.hostname = "node7";
  here.count_slots = [] { return 6U; };
  return here;
}

// "a:2 b:2", and how many of these places are ranks.
std::string placed(std::vector<std::string> args) {
  args.emplace_back("true");
  const LaunchPlan plan = make_plan(parse_options(args), machine());
  std::string text = std::to_string(plan.spec.np()) + " on";
  for (const HostSlots& host : plan.spec.hosts())
    text += " " + host.name + ":" + std::to_string(host.slots);
  return text;
}

TEST_CASE("each host gets the ranks that -N asks for", "[habits][plan]") {
  CHECK(placed({"-N", "2", "-H", "a:4,b:2"}) == "4 on a:2 b:2");
  CHECK(placed({"-N", "2", "-H", "a,b"}) == "4 on a:2 b:2");
  CHECK(placed({"-N", "2", "-H", "a,a,b:3"}) == "4 on a:2 b:2");
  CHECK(placed({"-N", "2", "-H", "a:4,c:0,b:4", "-np", "3"}) == "3 on a:2 c:0 b:2");
  CHECK(placed({"-N", "2", "-H", "a:1,b:4", "--oversubscribe"}) == "4 on a:2 b:2");
  CHECK(placed({"-pernode", "-H", "a:4,b:4"}) == "2 on a:1 b:1");
  CHECK(placed({"--map-by", "ppr:3:node", "-H", "a:4,b:4"}) == "6 on a:3 b:3");
  CHECK(placed({"-N", "2"}) == "2 on localhost:2");
  CHECK(placed({"-N", "4", "-np", "2"}) == "2 on localhost:2");
  CHECK(placed({"--nproc-per-node=4", "-H", "localhost,127.0.0.1"}) == "4 on localhost:4");
  const auto refused = [](const std::vector<std::string>& args, const std::string& part) {
    CAPTURE(args);
    CHECK_THROWS_WITH(placed(args), Catch::Contains(part));
  };
  refused(
      {"-N", "4", "-H", "a:4,b:2"},
      "-N 4 asks for more ranks than the 2 slots of b in -H 'a:4,b:2'; give it more, as in b:4");
  refused({"-N", "2", "-H", "a:4,b:4", "-np", "5"},
          "-np 5 asks for more ranks than the 4 that -N 2 gives 2 hosts");
  refused({"-N", "2", "-H", "a:4,b:4", "-np", "5", "--oversubscribe"}, "that -N 2 gives 2 hosts");
  refused({"-N", "2", "-np", "3"}, "-np 3 asks for more ranks than the 2 that -N 2 gives 1 host;");
}

TEST_CASE("what is asked for and not done is a line for the user", "[habits][plan]") {
  const LaunchPlan plan =
      make_plan(parse_options({"-np", "1", "--bind-to", "core", "true"}), machine());
  REQUIRE(plan.warnings.size() == 1);
  CHECK_THAT(plan.warnings.front(), Catch::StartsWith("--bind-to core: ranks are not bound"));
}

TEST_CASE("--no-autotune alone sets nothing, and takes what the environment has",
          "[habits][plan]") {
  const auto tuned = [](std::vector<std::string> args, const Environment& env) {
    args.emplace_back("true");
    const LaunchPlan plan = make_plan(parse_options(args), machine(env));
    const char* const value = find_variable(plan.spec.env, "HOROVOD_AUTOTUNE");
    return std::string(value != nullptr ? value : "unset");
  };
  CHECK(tuned({"--no-autotune"}, {}) == "unset");
  CHECK(tuned({"--no-autotune"}, {"HOROVOD_AUTOTUNE=1"}) == "unset");
  CHECK(tuned({"--no-autotune", "-x", "HOROVOD_AUTOTUNE=1"}, {}) == "1");
  CHECK(tuned({"--autotune"}, {"HOROVOD_AUTOTUNE=0"}) == "1");
}

}  // namespace
}  // namespace hvdrun
