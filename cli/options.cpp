#include "cli/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include <boost/program_options.hpp>

#include "common/limits.h"

namespace hvdrun {
namespace {

namespace po = boost::program_options;

struct OptionRow {
  const char* name;       // canonical, without dashes
  const char* spellings;  // every way to write it, blank separated
  const char* value;      // what the value is called; nullptr: a switch
  const char* help;       // nullptr: not shown
};

constexpr auto kOptions = std::to_array<OptionRow>({
    {"num-proc", "-np --np --num-proc", "N", "number of ranks (default: all slots of -H)"},
    {"hosts", "-H --hosts", "HOST:SLOTS,...", "hosts and how many ranks each can take"},
    {"export", "-x", "NAME[=VALUE]", "set or pass on an environment variable; may be repeated"},
    {"control", "--control", "unix|tcp",
     "local control connections: Unix sockets, or TCP with TLS"},
    {"start-timeout", "--start-timeout", "SECONDS", "how long all hosts may take to come up (30)"},
    {"grace", "--grace", "SECONDS", "time between SIGTERM and SIGKILL when a job is ended (5)"},
    {"lease", "--lease", "SECONDS", "how long a silent host or coordinator is waited for (15)"},
    {"verbose", "--verbose", nullptr, "say what is being done"},
    {"check-build", "-cb --check-build", nullptr, "show what this build can do, and exit"},
    {"version", "-v --version", nullptr, "show the version, and exit"},
    {"help", "-h --help", nullptr, "show this text, and exit"},
    // For tests: an agent of its own, on this machine, for every host of -H.
    {"transport", "--transport", "auto|local", nullptr},
});

bool spells(const OptionRow& row, std::string_view word) {
  std::string_view rest = row.spellings;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == word) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

const OptionRow* find_option(std::string_view word) {
  const auto it = std::find_if(kOptions.begin(), kOptions.end(),
                               [&](const OptionRow& row) { return spells(row, word); });
  return it == kOptions.end() ? nullptr : &*it;
}

// One word of the command line: the option it names, and a value that is part of the word.
struct Word {
  const OptionRow* row = nullptr;
  std::optional<std::string> value;
};

Word split_word(const std::string& word) {
  Word result;
  if ((result.row = find_option(word)) != nullptr) return result;
  const auto equals = word.find('=');
  if (equals != std::string::npos) {
    result.row = find_option(word.substr(0, equals));
    if (result.row != nullptr) result.value = word.substr(equals + 1);
    if (result.row != nullptr) return result;
  }
  // -Hhost:4, -xNAME: the value directly behind a one-letter option.
  if (word.size() > 2 && word[1] != '-') {
    const OptionRow* const row = find_option(word.substr(0, 2));
    if (row != nullptr && row->value != nullptr) return {row, word.substr(2)};
  }
  return result;
}

template <class T>
bool to_number(const std::string& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data(), end, number);
  return ec == std::errc() && at == end && !text.empty();
}

std::chrono::milliseconds to_duration(const po::variables_map& given, const char* name,
                                      std::chrono::milliseconds fallback) {
  if (!given.contains(name)) return fallback;
  const auto text = given[name].as<std::string>();
  double seconds = 0;
  if (!to_number(text, seconds) || !std::isfinite(seconds) || seconds < 0 || seconds > 1e6)
    throw UsageError("--" + std::string(name) + " '" + text +
                     "': a number of seconds is needed, as in --" + name + " 10");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

// A word of a fixed list; the first is the default.
std::string to_choice(const po::variables_map& given, const char* name,
                      const std::vector<std::string>& choices) {
  if (!given.contains(name)) return choices.front();
  auto text = given[name].as<std::string>();
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  std::string list;
  for (const auto& choice : choices) list.append(list.empty() ? "" : " or ").append(choice);
  throw UsageError("--" + std::string(name) + " '" + text + "': write " + list);
}

UsageError no_value(const std::string& arg, const OptionRow& row) {
  return UsageError("option '" + arg + "' needs a value: " + arg + " " + row.value);
}

// Everything before the program as options of Program_options; the program goes to `command`.
po::parsed_options split_args(const std::vector<std::string>& args,
                              const po::options_description& description,
                              std::vector<std::string>& command) {
  po::parsed_options parsed(&description);
  std::size_t i = 0;
  for (; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      ++i;
      break;
    }
    if (arg.size() < 2 || arg.front() != '-') break;
    Word word = split_word(arg);
    if (word.row == nullptr)
      throw UsageError("unknown option '" + arg +
                       "'; hvdrun --help lists them all (options of the program stand after it)");
    if (word.row->value == nullptr && word.value)
      throw UsageError("option '" + arg + "' takes no value");
    if (word.row->value != nullptr && !word.value) {
      if (i + 1 == args.size() || args[i + 1] == "--") throw no_value(arg, *word.row);
      word.value = args[++i];
    }
    po::option option;
    option.string_key = word.row->name;
    if (word.value) option.value = {*word.value};
    // The last one counts, as users of shell aliases expect; -x gathers.
    if (option.string_key != "export")
      std::erase_if(parsed.options,
                    [&](const auto& old) { return old.string_key == option.string_key; });
    parsed.options.push_back(std::move(option));
  }
  command.assign(args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
  return parsed;
}

po::options_description describe_options() {
  po::options_description description;
  for (const OptionRow& row : kOptions) {
    if (row.value == nullptr) {
      description.add_options()(row.name, "");
    } else if (std::string_view(row.name) == "export") {
      description.add_options()(row.name, po::value<std::vector<std::string>>(), "");
    } else {
      description.add_options()(row.name, po::value<std::string>(), "");
    }
  }
  return description;
}

}  // namespace

Options parse_options(const std::vector<std::string>& args) {
  Options options;
  const po::options_description description = describe_options();
  po::variables_map given;
  po::store(split_args(args, description, options.command), given);
  options.verbose = given.contains("verbose");
  options.version = given.contains("version");
  options.check_build = given.contains("check-build");
  options.help = given.contains("help");
  if (given.contains("num-proc")) {
    const auto text = given["num-proc"].as<std::string>();
    std::uint32_t np = 0;
    if (!to_number(text, np) || np == 0 || np > limits::kMaxRanks)
      throw UsageError("-np '" + text + "': a number of ranks from 1 to " +
                       std::to_string(limits::kMaxRanks) + " is needed, as in -np 4");
    options.np = np;
  }
  if (given.contains("hosts")) options.hosts = given["hosts"].as<std::string>();
  if (given.contains("export")) options.exports = given["export"].as<std::vector<std::string>>();
  for (const std::string& item : options.exports)
    if (item.empty() || item.front() == '=')
      throw UsageError("-x '" + item + "': no name; write -x NAME or -x NAME=VALUE");
  if (to_choice(given, "control", {"unix", "tcp"}) == "tcp")
    options.control = ControlTransport::tcp;
  options.every_host_local = to_choice(given, "transport", {"auto", "local"}) == "local";
  options.start_timeout = to_duration(given, "start-timeout", limits::kStartTimeout);
  options.grace = to_duration(given, "grace", limits::kGrace);
  options.lease = to_duration(given, "lease", limits::kLease);
  if (options.lease < 2 * limits::kHeartbeat)
    throw UsageError("--lease: at least 2 seconds, because hosts are heard of once a second");
  if (options.command.empty() && !options.version && !options.help && !options.check_build)
    throw UsageError("no program to run; write hvdrun -np 4 -H localhost:4 ./train");
  return options;
}

std::string help_text() {
  std::string text =
      "usage: hvdrun [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
      "Starts PROGRAM as the ranks of one job and returns the exit code of the first that "
      "fails.\n\n"
      "  hvdrun -np 4 -H localhost:4 ./train\n\n";
  for (const OptionRow& row : kOptions) {
    if (row.help == nullptr) continue;
    std::string left = "  ";
    for (const char c : std::string_view(row.spellings)) {
      if (c == ' ') left += ',';
      left += c;
    }
    if (row.value != nullptr) left += " " + std::string(row.value);
    left += left.size() < 36 ? std::string(36 - left.size(), ' ') : "\n" + std::string(36, ' ');
    text += left + row.help + "\n";
  }
  return text +
         "\nExit codes: the program's own, 128 + signal, 64 bad usage, 69 a host was lost,\n"
         "70 a fault of hvdrun, 126 and 127 the program cannot be run or was not found.\n";
}

}  // namespace hvdrun
