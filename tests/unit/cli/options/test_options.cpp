#include <algorithm>
#include <signal.h>
#include <sstream>

#include "cli/options/option_help.h"
#include "cli/options/option_table.h"
#include "cli/options/options.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

TEST_CASE("every spelling of an option works", "[options]") {
  for (const Words& np : {Words{"-np", "4"}, Words{"--np", "4"}, Words{"--num-proc", "4"},
                          Words{"--num-proc=4"}, Words{"-np=4"}}) {
    for (const Words& hosts :
         {Words{"-H", "a:4"}, Words{"--hosts", "a:4"}, Words{"--hosts=a:4"}, Words{"-Ha:4"}}) {
      Words args = np;
      args.insert(args.end(), hosts.begin(), hosts.end());
      args.emplace_back("./train");
      CAPTURE(args);
      const Options options = parse_options(args);
      CHECK(options.np == 4U);
      CHECK(options.hosts == "a:4");
      CHECK(options.command == Words{"./train"});
    }
  }
}

TEST_CASE("the program's own options are never taken for ours", "[options]") {
  const Words program = {"python3", "train.py", "-np", "9", "--verbose", "-H", "x:1", "--", "-x"};
  Words args = {"-np", "2"};
  args.insert(args.end(), program.begin(), program.end());
  Options options = parse_options(args);
  CHECK(options.np == 2U);
  CHECK_FALSE(options.verbose);
  CHECK_FALSE(options.hosts);
  CHECK(options.exports.empty());
  CHECK(options.command == program);

  options = parse_options({"-np", "2", "--", "--verbose", "--help"});
  CHECK_FALSE(options.verbose);
  CHECK(options.command == Words{"--verbose", "--help"});
  options = parse_options({"-np", "2", "-", "x"});
  CHECK(options.command == Words{"-", "x"});
}

TEST_CASE("values are taken as they are", "[options]") {
  const Options options = parse_options({"-x", "A=b=c", "-xB", "-x", "EMPTY=", "-np", "1", "true"});
  CHECK(options.exports == Words{"A=b=c", "B", "EMPTY="});
}

TEST_CASE("of an option given twice the last one counts", "[options]") {
  const Options options = parse_options({"-np", "2", "--np", "3", "true"});
  CHECK(options.np == 3U);
}

TEST_CASE("switches and times", "[options]") {
  const Options options = parse_options({"--verbose", "--control", "tcp", "--start-timeout", "1.5",
                                         "--grace=0", "--lease", "20", "true"});
  CHECK(options.verbose);
  CHECK(options.control == ControlTransport::tcp);
  CHECK(options.start_timeout == 1500ms);
  CHECK(options.grace == 0ms);
  CHECK(options.lease == 20s);
  CHECK(parse_options({"-v"}).version);
  CHECK(parse_options({"--version"}).version);
  CHECK(parse_options({"-cb"}).check_build);
  CHECK(parse_options({"-h"}).help);
}

TEST_CASE("bad input gets one or two lines that name the item", "[options]") {
  const auto [args, part] = GENERATE(table<Words, std::string>({
      {Words(), "no program"},
      {{"-np", "2"}, "no program"},
      {{"-np", "2", "--"}, "no program"},
      {{"-np"}, "'-np' needs a value"},
      {{"-np", "--", "x"}, "'-np' needs a value"},
      {{"-np", "0", "x"}, "-np '0'"},
      {{"-np", "-1", "x"}, "-np '-1'"},
      {{"-np", "two", "x"}, "-np 'two'"},
      {{"-np", "4x", "x"}, "-np '4x'"},
      {{"-np", "99999999999", "x"}, "-np '99999999999'"},
      {{"-np=", "x"}, "-np ''"},
      {{"--grace", "TERM", "x"}, "the last step must be KILL"},
      {{"--grace", "5s,KILL", "x"}, "--grace '5s,KILL'"},
      {{"--grace", "TERM,,KILL", "x"}, "--grace 'TERM,,KILL'"},
      {{"--stdin", "first", "x"}, "--stdin 'first'"},
      {{"--color", "blue", "x"}, "write auto or always or never"},
      {{"--isolation", "vm", "x"}, "--isolation 'vm'"},
      {{"--timeout", "0", "x"}, "more than 0"},
      {{"--env-compat", "slurm", "x"}, "horovod,torch,mpi-ids"},
      {{"--env-compat", "none,horovod", "x"}, "--env-compat 'none,horovod'"},
      {{"--env-compat", "", "x"}, "or none alone"},
      {{"--output-filename", "", "x"}, "is empty"},
      {{"--bogus", "x"}, "unknown option '--bogus'"},
      {{"-z", "x"}, "unknown option '-z'"},
      {{"--verbose=yes", "x"}, "takes no value"},
      {{"-zebra", "x"}, "unknown option '-zebra'"},
      {{"--fusion-threshold-mb", "-1", "x"}, "--fusion-threshold-mb '-1'"},
      {{"--autotune-gaussian-process-noise", "1.5", "x"}, "a number from 0 to 1"},
      {{"--log-level", "loud", "x"}, "write TRACE or DEBUG"},
      {{"--mpi", "x"}, "option '--mpi': hvdrun starts the ranks itself"},
      {{"--jsrun", "x"}, "option '--jsrun'"},
      {{"--mpi-args=-x A", "x"}, "option '--mpi-args'"},
      {{"--blacklist-cooldown-range", "9", "2", "x"}, "MAX is less than MIN"},
      {{"--blacklist-cooldown-range", "0", "2", "x"}, "a whole number from 1 to 3600"},
      {{"--host-discovery-script", "f", "-H", "a:1", "x"}, "not by both"},
      {{"--hostfile", "h", "--host-discovery-script", "f", "x"}, "not by both"},
      {{"--binding-args", "a", "x"}, "numactl"},
      {{"-mca", "pml"}, "'-mca' needs a value: -mca NAME VALUE"},
      {{"-H", "a:1", "--hostfile", "f", "x"}, "not by both"},
      {{"-p", "0", "x"}, "-p '0'"},
      {{"--json", "x"}, "belongs to --dry-run"},
      {{"--generate", "fax"}, "man or bash"},
      {{"--config-file", "/no/such", "x"}, "--config-file '/no/such': No such file"},
      {{"--control", "udp", "x"}, "write unix or tcp"},
      {{"--grace", "soon", "x"}, "--grace 'soon'"},
      {{"--grace", "-1", "x"}, "--grace '-1'"},
      {{"--grace", "nan", "x"}, "--grace 'nan'"},
      {{"--lease", "1", "x"}, "--lease"},
      {{"-x", "=b", "x"}, "no name"},
      {{"-x", "", "x"}, "no name"},
  }));
  CAPTURE(args);
  try {
    parse_options(args);
    FAIL("was accepted");
  } catch (const UsageError& e) {
    const std::string text = e.what();
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') <= 1);
  }
}

TEST_CASE("output, input and ending", "[options]") {
  Options options = parse_options({"x"});
  CHECK(options.output.tag == "on");
  CHECK(options.output.stdin_to.who == StdinTo::Who::none);
  CHECK(options.ladder.empty());
  CHECK_FALSE(options.timeout);
  options = parse_options({"--tag-output", "off", "-prefix-timestamp", "-output-filename", "logs",
                           "--fold", "--stdin", "3", "--color=never", "--events", "e", "--timeout",
                           "2m", "--isolation", "none", "--env-compat", "torch,mpi-ids", "x"});
  CHECK(options.output.tag == "off");
  CHECK(options.output.timestamps);
  CHECK(options.output.folder == "logs");
  CHECK(options.output.fold);
  CHECK(options.output.stdin_to.who == StdinTo::Who::one);
  CHECK(options.output.stdin_to.rank == 3);
  CHECK(options.output.color == ColorMode::never);
  CHECK(options.events_file == "e");
  CHECK(options.timeout == 2min);
  CHECK(options.isolation == Isolation::none);
  CHECK_FALSE(options.env_compat.horovod);
  CHECK(options.env_compat.torch);
  CHECK(options.env_compat.mpi_ids);
  CHECK(parse_options({"--stdin", "all", "x"}).output.stdin_to.who == StdinTo::Who::all);
}

TEST_CASE("the grace is seconds or a ladder", "[options]") {
  Options options = parse_options({"--grace", "INT,500ms,SIGTERM,20s,KILL", "x"});
  REQUIRE(options.ladder.size() == 3);
  CHECK(options.ladder[0].signal == SIGINT);
  CHECK(options.ladder[0].wait == 500ms);
  CHECK(options.ladder[1].signal == SIGTERM);
  CHECK(options.ladder[1].wait == 20s);
  CHECK(options.ladder[2].signal == SIGKILL);
  CHECK(options.grace == 20500ms);
  options = parse_options({"--grace", "TERM,1s,KILL", "--grace", "7", "x"});
  CHECK(options.ladder.empty());
  CHECK(options.grace == 7s);
}

std::string variable(const Options& options, const std::string& name) {
  std::string value = "(unset)";
  for (const auto& [known, text] : options.variables)
    if (known == name) value = text;
  return value;
}

TEST_CASE("every setting of Horovod becomes the variable that horovodrun sets", "[options]") {
  const auto [args, name, value] = GENERATE(table<Words, std::string, std::string>({
      {{"--fusion-threshold-mb", "10"}, "HOROVOD_FUSION_THRESHOLD", "10485760"},
      {{"--cycle-time-ms", "20"}, "HOROVOD_CYCLE_TIME", "20"},
      {{"--cache-capacity", "512"}, "HOROVOD_CACHE_CAPACITY", "512"},
      {{"--hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
      {{"--no-hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "0"},
      {{"--hierarchical-allgather"}, "HOROVOD_HIERARCHICAL_ALLGATHER", "1"},
      {{"--no-torus-allreduce"}, "HOROVOD_TORUS_ALLREDUCE", "0"},
      {{"--autotune"}, "HOROVOD_AUTOTUNE", "1"},
      {{"--autotune-log-file", "t.csv"}, "HOROVOD_AUTOTUNE_LOG", "t.csv"},
      {{"--autotune-warmup-samples", "1"}, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
      {{"--autotune-steps-per-sample", "2"}, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "2"},
      {{"--autotune-bayes-opt-max-samples", "3"}, "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "3"},
      {{"--autotune-gaussian-process-noise", "0.5"},
       "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
       "0.5"},
      {{"--timeline-filename", "t.json"}, "HOROVOD_TIMELINE", "t.json"},
      {{"--timeline-filename", "t.json"}, "HVD_TIMELINE", "t.json"},
      {{"--timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", "1"},
      {{"--no-timeline-mark-cycles"}, "HVD_TIMELINE_MARK_CYCLES", "0"},
      {{"--no-stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "1"},
      {{"--stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "0"},
      {{"--disable-stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "1"},
      {{"--stall-check-warning-time-seconds", "9"}, "HOROVOD_STALL_CHECK_TIME_SECONDS", "9"},
      {{"--stall-check-shutdown-time-seconds", "9"}, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"},
      {{"--mpi-threads-disable"}, "HOROVOD_MPI_THREADS_DISABLE", "1"},
      {{"--tcp"}, "NCCL_IB_DISABLE", "1"},
      {{"--num-nccl-streams", "2"}, "HOROVOD_NUM_NCCL_STREAMS", "2"},
      {{"--thread-affinity", "1"}, "HOROVOD_THREAD_AFFINITY", "1"},
      {{"--gloo-timeout-seconds", "60"}, "HOROVOD_GLOO_TIMEOUT_SECONDS", "60"},
      {{"--log-level", "DEBUG"}, "HOROVOD_LOG_LEVEL", "DEBUG"},
      {{"--log-with-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "0"},
      {{"--log-without-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "1"},
      {{"--log-hide-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "1"},
      {{"--no-log-hide-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "0"},
      {{"--network-interface", "eth0", "--network-interfaces", "ib0,ib1"},
       "NCCL_SOCKET_IFNAME",
       "eth0,ib0,ib1"},
      {{"--network-interfaces", "ib0,ib1"}, "HOROVOD_GLOO_IFACE", "ib0"},
  }));
  CAPTURE(args);
  Words line = args;
  line.emplace_back("x");
  CHECK(variable(parse_options(line), name) == value);
}

TEST_CASE("words of mpirun and horovodrun that need nothing are taken", "[options]") {
  const Options options = parse_options({"--allow-run-as-root",
                                         "-bind-to",
                                         "none",
                                         "-map-by",
                                         "slot",
                                         "-mca",
                                         "pml",
                                         "ob1",
                                         "--mca",
                                         "btl",
                                         "^openib",
                                         "--bind-to",
                                         "core",
                                         "--gloo",
                                         "-gmca",
                                         "a",
                                         "b",
                                         "--oversubscribe",
                                         "-p",
                                         "22",
                                         "-i",
                                         "id",
                                         "-n",
                                         "3",
                                         "--disable-cache",
                                         "--host",
                                         "a,b:2",
                                         "--start-timeout",
                                         "9",
                                         "./train",
                                         "--gloo"});
  CHECK(options.np == 3U);
  CHECK(options.hosts == "a,b:2");
  CHECK(options.oversubscribe);
  CHECK(options.ssh.port == 22);
  CHECK(options.ssh.identity_file == "id");
  CHECK(options.command == Words{"./train", "--gloo"});
  REQUIRE(options.notes.size() == 3);
  CHECK(options.notes[0].find("-mca pml ob1: a setting of Open MPI") == 0);
  REQUIRE(options.warnings.size() == 1);
  CHECK(options.warnings[0].find("--bind-to core: ranks are not bound") == 0);
}

TEST_CASE("HVDRUN_ variables are options, and the command line beats them", "[options]") {
  const Environment env = {
      "HVDRUN_NP=4",         "HVDRUN_HOSTS=a:4",   "HVDRUN_VERBOSE=yes",   "HVDRUN_TAG_OUTPUT=off",
      "HVDRUN_AGENT=/agent", "HVDRUN_HELP=1",      "HVDRUN_EXPORT=A=1\nB", "HVDRUN_STALL_CHECK=0",
      "HVDRUN_GRACE=",       "HVDRUN_MCA=pml ob1", "HVDRUN_NO_SUCH=1",     "HVDRUN=x"};
  Options options = parse_options({"x"}, env);
  CHECK(options.np == 4U);
  CHECK(options.hosts == "a:4");
  CHECK(options.verbose);
  CHECK_FALSE(options.help);
  CHECK(options.output.tag == "off");
  CHECK(options.exports == Words{"A=1", "B"});
  CHECK(variable(options, "HOROVOD_STALL_CHECK_DISABLE") == "1");
  CHECK(options.notes.size() == 1);
  options = parse_options({"-np", "2", "--hostfile", "f", "--stall-check", "-x", "C", "x"}, env);
  CHECK(options.np == 2U);
  CHECK_FALSE(options.hosts);
  CHECK(options.hostfile == "f");
  CHECK(variable(options, "HOROVOD_STALL_CHECK_DISABLE") == "0");
  CHECK(options.exports == Words{"A=1", "B", "C"});
  CHECK_THROWS_WITH(parse_options({"x"}, {"HVDRUN_NP=zero"}), Catch::Contains("HVDRUN_NP 'zero'"));
  CHECK_THROWS_WITH(parse_options({"x"}, {"HVDRUN_FOLD=maybe"}), Catch::Contains("HVDRUN_FOLD"));
  CHECK(parse_options({"-np", "1", "x"}, {"HVDRUN_NP=zero"}).np == 1U);
  CHECK(parse_options({"x"}, {"HOROVOD_START_TIMEOUT=7"}).start_timeout == 7s);
  // However it is given, hosts are waited for so long.
  CHECK(parse_options({"x"}, {"HOROVOD_START_TIMEOUT=7"}).start_timeout_given);
  CHECK(parse_options({"x"}, {"HVDRUN_START_TIMEOUT=30"}).start_timeout_given);
  CHECK(parse_options({"--start-timeout", "30", "x"}).start_timeout_given);
  CHECK_FALSE(parse_options({"x"}).start_timeout_given);
  CHECK(parse_options({"x"}, {"HVDRUN_START_TIMEOUT=8", "HOROVOD_START_TIMEOUT=7"}).start_timeout ==
        8s);
}

TEST_CASE("every option that is no action has a variable by its name", "[options]") {
  for (const OptionRow* const row : option_table()) {
    CAPTURE(row->name);
    CHECK(find_option("--" + std::string(row->name)) == row);
    CHECK((row->help != nullptr && row->take != nullptr));
  }
}

TEST_CASE("a colon with a number of ranks begins another program", "[options]") {
  const Options options =
      parse_options({"-np", "1", "./a", "x", ":", "-np", "3", "./b", ":", "--np", "2", "./c", ":"});
  CHECK(options.np == 1U);
  CHECK(options.command == Words{"./a", "x"});
  REQUIRE(options.parts.size() == 2);
  CHECK(options.parts[0].np == 3);
  CHECK(options.parts[0].command == Words{"./b"});
  CHECK(options.parts[1].np == 2);
  CHECK(options.parts[1].command == Words{"./c", ":"});
  for (const Words& program : {Words{"sh", "-c", ":"}, Words{"awk", "-F", ":", "-f", "x"},
                               Words{"xargs", "-d", ":", "-n", "3", "x"}}) {
    CHECK(parse_options(program).parts.empty());
    CHECK(parse_options(program).command == program);
  }
  const Words as_it_is = {"./a", ":", "-np", "3", "./b"};
  Words args = {"-np", "1", "--"};
  args.insert(args.end(), as_it_is.begin(), as_it_is.end());
  CHECK(parse_options(args).command == as_it_is);
}

TEST_CASE("a word of hvdrun's own is one only in the first place", "[options]") {
  Options options = parse_options({"status", "--json"});
  CHECK(options.command_word == "status");
  CHECK(options.command == Words{"--json"});
  for (const Words& args : {Words{"--", "status"}, Words{"-np", "2", "status"}, Words{"./status"}})
    CHECK(parse_options(args).command_word.empty());
}

TEST_CASE("the help fits a screen, and knows every option by topic", "[options]") {
  const std::string front = help_text("");
  CHECK(std::count(front.begin(), front.end(), '\n') <= 24);
  for (const std::string& page : {front, help_text("all")}) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
    }
  }
  for (const char* name : {"-np", "-H", "-x", "--verbose", "--version", "--help", "--grace"})
    CHECK(front.find(name) != std::string::npos);
  const std::string all = help_text("all");
  for (const char* name : {"--np", "--num-proc", "--hosts", "--control", "--check-build", "--fold",
                           "--isolation", "--env-compat"})
    CHECK(all.find(name) != std::string::npos);
  CHECK(parse_options({"--help", "output"}).help_topic == "output");
  CHECK(help_text("output").find("--fold") != std::string::npos);
  CHECK(help_text("output").find("--control") == std::string::npos);
}

}  // namespace
}  // namespace hvdrun
