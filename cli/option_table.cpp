#include "cli/option_table.h"

#include <algorithm>
#include <array>

#include "cli/option_values.h"
#include "common/limits.h"

namespace hvdrun {
namespace {

using O = Options;
using Use = OptionUse;

constexpr auto kOptions = std::to_array<OptionRow>({
    {"num-proc", "-np --np --num-proc -n", "N", Page::front, Topic::ranks,
     "number of ranks (default: all slots of -H)",
     [](O& o, const Use& use) {
       o.np = static_cast<std::uint32_t>(to_whole(use, 1, limits::kMaxRanks));
     }},
    {"hosts", "-H --hosts", "HOST:SLOTS,...", Page::front, Topic::ranks,
     "hosts and how many ranks each can take",
     [](O& o, const Use& use) { o.hosts = use.value(); }},

    {"export", "-x", "NAME[=VALUE]", Page::front, Topic::environment,
     "set or pass on an environment variable; may be repeated",
     [](O& o, const Use& use) {
       if (use.value().empty() || use.value().front() == '=')
         throw bad_value(use, "no name; write -x NAME or -x NAME=VALUE");
       o.exports.push_back(use.value());
     },
     true},
    {"env-compat", "--env-compat", "LIST", Page::topic, Topic::environment,
     "set these launchers' variables too: horovod,torch,mpi-ids, or none (default: all)",
     take_env_compat},

    {"tag-output", "--tag-output", "on|off|TEMPLATE", Page::front, Topic::output,
     "what stands before each output line (on: [rank]<stdout>:)",
     [](O& o, const Use& use) { o.output.tag = to_text(use); }},
    {"prefix-output-with-timestamp",
     "--prefix-output-with-timestamp -prefix-timestamp --prefix-timestamp", nullptr, Page::topic,
     Topic::output, "put the time before each output line",
     [](O& o, const Use& use) { o.output.timestamps = use.on; }},
    {"output-filename", "--output-filename", "DIR", Page::front, Topic::output,
     "write each rank's output to files in DIR too",
     [](O& o, const Use& use) { o.output.folder = to_text(use); }},
    {"fold", "--fold", nullptr, Page::topic, Topic::output,
     "show a line that many ranks write once",
     [](O& o, const Use& use) { o.output.fold = use.on; }},
    {"stdin", "--stdin", "none|RANK|all", Page::topic, Topic::output,
     "who gets hvdrun's stdin (default: none)", take_stdin},
    {"color", "--color", "auto|always|never", Page::topic, Topic::output,
     "colour the prefixes of output lines (default: auto)",
     [](O& o, const Use& use) {
       o.output.color = to_choice<ColorMode>(use, {{"auto", ColorMode::automatic},
                                                   {"always", ColorMode::always},
                                                   {"never", ColorMode::never}});
     }},
    {"verbose", "--verbose", nullptr, Page::front, Topic::output, "say what is being done",
     [](O& o, const Use& use) { o.verbose = use.on; }},
    {"events", "--events", "FILE", Page::topic, Topic::output,
     "write what happens to the job to FILE, a JSON object a line",
     [](O& o, const Use& use) { o.events_file = to_text(use); }},

    {"grace", "--grace", "SECONDS|LADDER", Page::front, Topic::ending,
     "time between SIGTERM and SIGKILL (5), or a ladder: TERM,20s,KILL", take_grace},
    {"timeout", "--timeout", "SECONDS", Page::front, Topic::ending,
     "end the job after this time",
     [](O& o, const Use& use) {
       o.timeout = to_duration(use);
       if (o.timeout->count() == 0) throw bad_value(use, "more than 0 seconds are needed");
     }},
    {"start-timeout", "--start-timeout", "SECONDS", Page::front, Topic::ending,
     "how long all hosts may take to come up (30)",
     [](O& o, const Use& use) { o.start_timeout = to_duration(use); }},
    {"lease", "--lease", "SECONDS", Page::topic, Topic::ending,
     "how long a silent host or coordinator is waited for (15)",
     [](O& o, const Use& use) {
       o.lease = to_duration(use);
       if (o.lease < 2 * limits::kHeartbeat)
         throw bad_value(use, "at least 2 seconds, because hosts are heard of once a second");
     }},
    {"isolation", "--isolation", "auto|cgroup|pidns|none", Page::topic, Topic::ending,
     "how a rank's processes are held together (default: auto)",
     [](O& o, const Use& use) {
       o.isolation = to_choice<Isolation>(use, {{"auto", Isolation::automatic},
                                                {"cgroup", Isolation::cgroup},
                                                {"pidns", Isolation::pidns},
                                                {"none", Isolation::none}});
     }},

    {"control", "--control", "unix|tcp", Page::topic, Topic::network,
     "local control connections: Unix sockets, or TCP with TLS",
     [](O& o, const Use& use) {
       o.control = to_choice<ControlTransport>(
           use, {{"unix", ControlTransport::unix_socket}, {"tcp", ControlTransport::tcp}});
     }},
    {"transport", "--transport", "auto|local", Page::hidden, Topic::network,
     "for tests: local is an agent of its own, on this machine, for every host of -H",
     [](O& o, const Use& use) {
       o.every_host_local = to_choice<bool>(use, {{"auto", false}, {"local", true}});
     }},

    {"check-build", "-cb --check-build", nullptr, Page::front, Topic::about,
     "show what this build can do, and exit",
     [](O& o, const Use&) { o.check_build = true; }},
    {"version", "-v --version", nullptr, Page::front, Topic::about, "show the version, and exit",
     [](O& o, const Use&) { o.version = true; }},
    {"help", "-h --help", nullptr, Page::front, Topic::about,
     "show this text, or --help TOPIC, and exit", [](O& o, const Use&) { o.help = true; }},
});

constexpr auto kTopics = std::to_array<TopicRow>({
    {Topic::ranks, "ranks", "Ranks and hosts"},
    {Topic::environment, "environment", "What the ranks find in their environment"},
    {Topic::output, "output", "Output and input"},
    {Topic::ending, "ending", "How long things may take, and how a job ends"},
    {Topic::network, "network", "Connections"},
    {Topic::about, "about", "About hvdrun"},
});

}  // namespace

std::span<const OptionRow> option_table() { return kOptions; }

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
  for (const OptionRow& row : kOptions)
    for (const std::string_view known : spellings_of(row))
      if (known == spelling) return &row;
  return nullptr;
}

std::size_t count_values(const OptionRow& row) {
  if (row.value == nullptr) return 0;
  const std::string_view value = row.value;
  return 1 + static_cast<std::size_t>(std::count(value.begin(), value.end(), ' '));
}

}  // namespace hvdrun
