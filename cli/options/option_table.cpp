#include "cli/options/option_table.h"

#include <algorithm>
#include <array>

#include "cli/options/mpirun_words.h"
#include "cli/options/option_values.h"
#include "common/base/limits.h"

namespace hvdrun {
namespace {

using O = Options;
using Use = OptionUse;

void set_cooldown(O& o, const Use& use) {
  constexpr std::uint64_t kMost = 3600;  // as horovodrun
  const auto seconds = [&](const std::string& value) {
    return std::chrono::seconds(to_whole({use.row, use.where, {value}, use.on}, 1, kMost));
  };
  const auto least = seconds(use.values.front());
  const auto most = seconds(use.values.back());
  if (most < least) throw bad_value(use, "MAX is less than MIN");
  o.cooldown = {least, most};
}

constexpr auto kOptions = std::to_array<OptionRow>({
    {"num-proc", "-np --np --num-proc -n --ntasks", "N", Page::front, Topic::ranks,
     "number of ranks (all slots, GPUs or cores)",
     [](O& o, const Use& use) {
       o.np = static_cast<std::uint32_t>(to_whole(use, 1, limits::kMaxRanks));
     }},
    {"hosts", "-H --hosts --host", "HOST:SLOTS,...", Page::front, Topic::ranks,
     "gpu1:4,node[01-16]:8,user@gpu2:port:4",
     [](O& o, const Use& use) {
       o.hosts = use.value();
       o.hosts_where = use.where;
       o.hostfile.reset();
     }},
    {"hostfile", "--hostfile --machinefile", "FILE", Page::front, Topic::ranks,
     "hosts, one a line: 'gpu1 slots=4' or gpu1:4",
     [](O& o, const Use& use) {
       o.hostfile = to_text(use);
       o.hosts_where = use.where;
       o.hosts.reset();
     }},
    {"ranks-per-host", "-N --ranks-per-host --npernode --ppn --perhost", "N", Page::topic,
     Topic::ranks, "ranks of each host, as -N of mpirun (not srun)", take_ranks_per_host, true},
    {"gpus", "--gpus", "auto|none|HOST=0,2", Page::front, Topic::ranks,
     "which GPUs the ranks of a host see (auto: all)", take_gpus},
    {"min-np", "--min-np --min-num-proc", "N", Page::topic, Topic::ranks,
     "go on while N ranks are left (elastic::run)",
     [](O& o, const Use& use) {
       o.min_np = static_cast<std::uint32_t>(to_whole(use, 1, limits::kMaxRanks));
     }},
    {"elastic-timeout", "--elastic-timeout", "SECONDS", Page::topic, Topic::ranks,
     "with --min-np: time to wait for ranks (600)",
     [](O& o, const Use& use) {
       o.elastic_timeout = to_duration(use);
       if (o.elastic_timeout->count() == 0)
         throw bad_value(use, "more than 0 seconds are needed");
     }},
    {"max-np", "--max-np --max-num-proc", "N", Page::topic, Topic::ranks,
     "start N ranks at most, if there are more slots",
     [](O& o, const Use& use) {
       o.max_np = static_cast<std::uint32_t>(to_whole(use, 1, limits::kMaxRanks));
     }},
    {"host-discovery-script", "--host-discovery-script", "SCRIPT", Page::topic, Topic::ranks,
     "prints the hosts, HOST:SLOTS a line, each second",
     [](O& o, const Use& use) {
       o.discovery_script = to_text(use);
       o.hosts_where = use.where;
     }},
    {"slots-per-host", "--slots-per-host --slots", "N", Page::topic, Topic::ranks,
     "slots of hosts that it lists without a number",
     [](O& o, const Use& use) {
       o.slots_per_host = static_cast<std::uint32_t>(to_whole(use, 1, limits::kMaxSlotsPerHost));
     }},
    {"reset-limit", "--reset-limit", "N", Page::topic, Topic::ranks,
     "with --min-np: end when ranks meet more often",
     [](O& o, const Use& use) {
       o.reset_limit = static_cast<std::uint32_t>(to_whole(use, 0, limits::kMaxRanks));
     }},
    {"blacklist-cooldown-range", "--blacklist-cooldown-range", "MIN MAX", Page::topic, Topic::ranks,
     "try slots that were left out after so long again", set_cooldown},
    {"oversubscribe", "--oversubscribe", nullptr, Page::topic, Topic::ranks,
     "allow more ranks than slots", [](O& o, const Use& use) { o.oversubscribe = use.on; }},
    {"allow-mpi", "--allow-mpi", nullptr, Page::topic, Topic::ranks,
     "start a program linked with MPI all the same",
     [](O& o, const Use& use) { o.allow_mpi = use.on; }},
    {"dry-run", "--dry-run", nullptr, Page::front, Topic::ranks,
     "show what would be started where, and exit",
     [](O& o, const Use& use) { o.dry_run = use.on; }},
    {"json", "--json", nullptr, Page::topic, Topic::ranks, "with --dry-run: as JSON",
     [](O& o, const Use& use) { o.json = use.on; }},
    {"config-file", "--config-file", "FILE", Page::topic, Topic::ranks,
     "options from a YAML file with Horovod's keys",
     [](O& o, const Use& use) { o.config_file = to_text(use); }},

    {"export", "-x --export", "NAME[=VALUE]", Page::front, Topic::environment,
     "set or pass on a variable, or 'NCCL_*'", take_export, true},
    {"env-file", "--env-file", "FILE", Page::topic, Topic::environment,
     "set the variables of FILE, NAME=VALUE a line",
     [](O& o, const Use& use) { o.env_files.push_back(to_text(use)); }, true},
    {"env-compat", "--env-compat", "LIST", Page::topic, Topic::environment,
     "of horovod,torch,mpi-ids, or none (all)", take_env_compat},
    {"chdir", "--chdir --wdir --wd", "DIR", Page::topic, Topic::environment,
     "start the ranks in DIR", [](O& o, const Use& use) { o.folder = to_text(use); }},

    {"tag-output", "--tag-output", "on|off|TEMPLATE", Page::front, Topic::output,
     "before each line (bare or on: [0]<stdout>:)",
     [](O& o, const Use& use) { o.output.tag = to_tag(use); }, false, nullptr, looks_like_tag},
    {"prefix-output-with-timestamp",
     "--prefix-output-with-timestamp --prefix-timestamp --timestamp-output", nullptr, Page::topic,
     Topic::output, "put the time before each output line",
     [](O& o, const Use& use) { o.output.timestamps = use.on; }},
    {"output-filename", "--output-filename", "DIR", Page::front, Topic::output,
     "write each rank's output to files in DIR",
     [](O& o, const Use& use) { o.output.folder = to_text(use); }},
    {"fold", "--fold", nullptr, Page::topic, Topic::output,
     "show a line that many ranks write once",
     [](O& o, const Use& use) { o.output.fold = use.on; }},
    {"stdin", "--stdin", "none|RANK|all", Page::topic, Topic::output,
     "who gets hvdrun's stdin (default: none)", take_stdin},
    {"color", "--color", "auto|always|never", Page::topic, Topic::output,
     "colour what stands before lines (auto)",
     [](O& o, const Use& use) {
       o.output.color = to_choice<ColorMode>(use, {{"auto", ColorMode::automatic},
                                                   {"always", ColorMode::always},
                                                   {"never", ColorMode::never}});
     }},
    {"verbose", "--verbose", nullptr, Page::front, Topic::output, "say what is being done",
     [](O& o, const Use& use) { o.verbose = use.on; }},
    {"sync-dir", "--sync-dir", "DIR", Page::topic, Topic::output,
     "bring files that ranks of all hosts write to DIR",
     [](O& o, const Use& use) { o.sync_folder = to_text(use); }},
    {"events", "--events", "FILE", Page::topic, Topic::output,
     "write the events of the job to FILE, JSON a line",
     [](O& o, const Use& use) { o.events_file = to_text(use); }},

    {"grace", "--grace", "SECONDS|LADDER", Page::front, Topic::ending,
     "from SIGTERM to SIGKILL (5), or TERM,20s,KILL", take_grace},
    {"timeout", "--timeout", "SECONDS", Page::front, Topic::ending,
     "end the job after this time",
     [](O& o, const Use& use) {
       o.timeout = to_duration(use);
       if (o.timeout->count() == 0) throw bad_value(use, "more than 0 seconds are needed");
     }},
    {"max-restarts", "--max-restarts --max_restarts", "N", Page::topic, Topic::ending,
     "start the job again when it fails, N times",
     [](O& o, const Use& use) {
       o.max_restarts = static_cast<std::uint32_t>(to_whole(use, 0, limits::kMaxRanks));
     }},
    {"start-timeout", "--start-timeout", "SECONDS", Page::front, Topic::ending,
     "hosts' time to come up (30); if given, retries",
     [](O& o, const Use& use) {
       o.start_timeout = to_duration(use);
       o.start_timeout_given = true;
     }},
    {"lease", "--lease", "SECONDS", Page::topic, Topic::ending,
     "how long silent hosts are waited for (15)",
     [](O& o, const Use& use) {
       o.lease = to_duration(use);
       if (o.lease < 2 * limits::kHeartbeat)
         throw bad_value(use, "at least 2 seconds, because hosts are heard of once a second");
     }},
    {"isolation", "--isolation", "auto|cgroup|pidns|none", Page::topic, Topic::ending,
     "what holds a rank's processes together",
     [](O& o, const Use& use) {
       o.isolation = to_choice<Isolation>(use, {{"auto", Isolation::automatic},
                                                {"cgroup", Isolation::cgroup},
                                                {"pidns", Isolation::pidns},
                                                {"none", Isolation::none}});
     }},

    {"control", "--control", "unix|tcp", Page::topic, Topic::network,
     "Unix sockets (default), or TCP with TLS",
     [](O& o, const Use& use) {
       o.control = to_choice<ControlTransport>(
           use, {{"unix", ControlTransport::unix_socket}, {"tcp", ControlTransport::tcp}});
     }},
    {"ssh-port", "-p --ssh-port", "PORT", Page::topic, Topic::network,
     "the ssh port of hosts without one in -H",
     [](O& o, const Use& use) { o.ssh.port = static_cast<std::uint16_t>(to_whole(use, 1, 65535)); }},
    {"ssh-identity-file", "-i --ssh-identity-file", "FILE", Page::topic, Topic::network,
     "the ssh key for the other hosts",
     [](O& o, const Use& use) { o.ssh.identity_file = to_text(use); }},
    {"ssh", "--ssh", "COMMAND", Page::topic, Topic::network,
     "libssh2, openssh, srun, a client, or with {host}",
     [](O& o, const Use& use) {
       o.ssh.program = to_words(use);
       const bool one = o.ssh.program.size() == 1;
       const std::string word = one ? o.ssh.program.front() : "";
       o.ssh.carrier = word == "auto"      ? HostCarrier::automatic
                         : word == "libssh2" ? HostCarrier::libssh2
                         : word == "srun"    ? HostCarrier::srun
                                             : HostCarrier::client;
       if (word == "auto" || word == "libssh2" || word == "openssh") o.ssh.program = {"ssh"};
     }},
    {"ssh-args", "--ssh-args", "WORDS", Page::topic, Topic::network,
     "more options for ssh, as in '-o User=me'",
     [](O& o, const Use& use) { o.ssh.arguments = to_words(use); }},
    {"accept-new-host-keys", "--accept-new-host-keys", nullptr, Page::topic, Topic::network,
     "trust hosts that ssh does not know yet",
     [](O& o, const Use& use) { o.ssh.accept_new_host_keys = use.on; }},
    {"advertise", "--advertise", "ADDRESS,...", Page::topic, Topic::network,
     "where other hosts find this machine, exactly",
     [](O& o, const Use& use) {
       o.network.advertise = to_list(use);
       for (const std::string& address : o.network.advertise)
         if (!is_ip_address(address))
           throw bad_value(use, "addresses are needed, as in 10.0.0.1,2001:db8::1");
     }},
    {"port-range", "--port-range", "FIRST-LAST", Page::topic, Topic::network,
     "the ports that other hosts connect to",
     [](O& o, const Use& use) {
       if (!parse_port_range(use.value(), o.network.ports))
         throw bad_value(use, "write the first and the last port, as in 6000-6100");
     }},
    {"encrypt-data", "--encrypt-data", nullptr, Page::topic, Topic::network,
     "TLS for what ranks of different hosts send",
     [](O& o, const Use& use) { o.network.encrypt_data = use.on; }},
    {"transport", "--transport", "auto|local", Page::hidden, Topic::network,
     "for tests: local is an agent of its own, on this machine, for every host of -H",
     [](O& o, const Use& use) {
       o.every_host_local = to_choice<bool>(use, {{"auto", false}, {"local", true}});
     }},

    {"generate", "--generate", "man|bash|zsh|fish", Page::hidden, Topic::about,
     "write the man page or a shell's completion, for the build",
     [](O& o, const Use& use) {
       o.generate = to_choice<std::string>(
           use, {{"man", "man"}, {"bash", "bash"}, {"zsh", "zsh"}, {"fish", "fish"}});
     }},
    {"check-build", "-cb --check-build", nullptr, Page::front, Topic::about,
     "show what this build can do, and exit",
     [](O& o, const Use&) { o.check_build = true; }},
    {"version", "-v --version", nullptr, Page::front, Topic::about, "show the version, and exit",
     [](O& o, const Use&) { o.version = true; }},
    {"help", "-h --help", nullptr, Page::front, Topic::about,
     "show this text, and exit", [](O& o, const Use&) { o.help = true; }},
});

constexpr auto kTopics = std::to_array<TopicRow>({
    {Topic::ranks, "ranks", "Ranks and hosts"},
    {Topic::environment, "environment", "What the ranks find in their environment"},
    {Topic::output, "output", "Output and input"},
    {Topic::ending, "ending", "How long things may take, and how a job ends"},
    {Topic::network, "network", "Connections"},
    {Topic::horovod, "horovod", "Horovod's settings: each sets the variable that horovodrun sets"},
    {Topic::mpirun, "mpirun",
     "Words of mpirun and horovodrun: what they ask for is so anyway, done or told"},
    {Topic::about, "about", "About hvdrun"},
});

}  // namespace

std::vector<const OptionRow*> option_table() {
  std::vector<const OptionRow*> rows;
  rows.reserve(kOptions.size() + horovod_options().size());
  for (const OptionRow& row : kOptions) rows.push_back(&row);
  for (const OptionRow& row : horovod_options()) rows.push_back(&row);
  return rows;
}

std::span<const TopicRow> topic_table() { return kTopics; }

std::vector<std::string_view> spellings_of(const OptionRow& row) {
  std::vector<std::string_view> result;
  for (std::string_view rest = row.spellings; !rest.empty();) {
    const auto end = std::min(rest.find(' '), rest.size());
    result.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return result;
}

const OptionRow* find_option(std::string_view spelling) {
  const auto spelled = [&](const OptionRow& row) {
    for (std::string_view rest = row.spellings; !rest.empty();) {
      const auto end = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, end) == spelling) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  };
  for (const std::span<const OptionRow> rows :
       {std::span<const OptionRow>(kOptions), horovod_options()})
    for (const OptionRow& row : rows)
      if (spelled(row)) return &row;
  return nullptr;
}

std::size_t count_values(const OptionRow& row) {
  if (row.value == nullptr) return 0;
  const std::string_view value = row.value;
  return 1 + static_cast<std::size_t>(std::count(value.begin(), value.end(), ' '));
}

std::string value_text(const OptionRow& row) {
  const std::string value = row.value == nullptr ? "" : row.value;
  return row.is_value == nullptr ? value : "[" + value + "]";
}

}  // namespace hvdrun
