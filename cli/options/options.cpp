#include "cli/options/options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/options/config_file.h"
#include "cli/options/option_suggestion.h"
#include "cli/options/option_table.h"
#include "cli/options/option_values.h"
#include "cli/text/text_file.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

// Words of hvdrun's own, in place of a program.
constexpr auto kCommandWords =
    std::to_array<std::string_view>({"explain", "hosts", "ps", "reload", "status"});

constexpr std::string_view kVariablePrefix = "HVDRUN_";
constexpr const char* kHorovodStartTimeout = "HOROVOD_START_TIMEOUT";

// One word of the command line: the option it names, and a value that is part of the word.
struct Word {
  const OptionRow* row = nullptr;
  std::string spelling;
  std::optional<std::string> value;
};

// Open MPI takes its long options with one dash too (-output-filename).
const OptionRow* find_spelled(const std::string& word) {
  const OptionRow* const row = find_option(word);
  if (row != nullptr || word.size() <= 2 || word[1] == '-') return row;
  return find_option("-" + word);
}

Word split_word(const std::string& word) {
  if (const OptionRow* const row = find_spelled(word)) return {row, word, {}};
  const auto equals = word.find('=');
  if (equals != std::string::npos) {
    const std::string name = word.substr(0, equals);
    if (const OptionRow* const row = find_spelled(name))
      return {row, name, word.substr(equals + 1)};
  }
  // -Hhost:4, -xNAME, -n4: the value directly behind a one-letter option.
  const std::string letter = word.substr(0, 2);
  const bool digit = word.size() > 2 && word[2] >= '0' && word[2] <= '9';
  if (word.size() > 2 && (letter == "-H" || letter == "-x" || digit)) {
    const OptionRow* const row = find_option(letter);
    if (row != nullptr && count_values(*row) == 1) return {row, letter, word.substr(2)};
  }
  return {};
}

UsageError no_value(const std::string& arg, const OptionRow& row) {
  return UsageError("option '" + arg + "' needs a value: " + arg + " " + row.value);
}

UsageError unknown_option(const std::string& arg) {
  if (const std::string advice = abbreviation_advice(arg); !advice.empty())
    return UsageError("unknown option " + quoted_word(arg) + "; " + advice);
  const std::string near = nearest_option(arg);
  return UsageError(
      "unknown option " + quoted_word(arg) +
      (near.empty() ? "; hvdrun --help all lists them" : "; did you mean " + near + "?") +
      " (options of the program stand after it)");
}

bool is_topic(const std::string& word) {
  const auto topics = topic_table();
  return word == "all" || std::any_of(topics.begin(), topics.end(),
                                      [&](const auto& row) { return word == row.name; });
}

// NAME=VALUE before the program, as shells and so horovodrun take it.
bool is_assignment(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || (word[0] >= '0' && word[0] <= '9'))
    return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

// The last use of an option counts, as users of shell aliases expect; some gather.
void add_use(std::vector<OptionUse>& uses, OptionUse use) {
  if (!use.row->repeats)
    std::erase_if(uses, [&](const OptionUse& old) { return old.row == use.row; });
  uses.push_back(std::move(use));
}

bool names(const OptionUse& use, std::string_view name) { return use.row->name == name; }

void check_hosts_once(const std::vector<OptionUse>& uses, const OptionUse& use) {
  const auto lists_hosts = [](const OptionUse& one) {
    return names(one, "hosts") || names(one, "hostfile") || names(one, "host-discovery-script");
  };
  if (!lists_hosts(use)) return;
  for (const OptionUse& other : uses)
    if (lists_hosts(other) && other.row != use.row)
      throw UsageError("give the hosts by " + other.where + " or by " + use.where +
                       ", not by both");
}

// A colon alone may be an argument of the program (awk -F :), so only ": -np NUMBER" counts.
bool begins_part(const std::vector<std::string>& args, std::size_t i) {
  if (i + 2 >= args.size() || args[i] != ":" || args[i + 2].empty()) return false;
  const OptionRow* const row = find_option(args[i + 1]);
  return row != nullptr && std::string_view(row->name) == "num-proc" && args[i + 1] != "-n" &&
         args[i + 2].find_first_not_of("0123456789") == std::string::npos;
}

// From options.command on, which has all parts, into the parts behind the first.
void split_parts(Options& options) {
  std::vector<std::string> words = std::move(options.command);
  options.command.clear();
  std::vector<std::string>* command = &options.command;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!begins_part(words, i)) {
      command->push_back(std::move(words[i]));
      continue;
    }
    const OptionUse np{find_option(words[i + 1]), words[i + 1], {words[i + 2]}, true};
    OptionsPart& part = options.parts.emplace_back();
    part.np = static_cast<std::uint32_t>(to_whole(np, 1, limits::kMaxRanks));
    command = &part.command;
    i += 2;
    if (i + 1 == words.size() || words[i + 1].starts_with('-') || begins_part(words, i + 1))
      throw UsageError("a program is needed behind ': " + np.where + " " + np.value() +
                       "'; other options stand before the first program");
    if (is_assignment(words[i + 1]))
      throw UsageError(quoted_word(words[i + 1]) + " behind ': " + np.where + " " + np.value() +
                       "': -x before the first program sets a variable for all; for this program "
                       "alone write env " +
                       printable(words[i + 1]));
  }
  if (!options.parts.empty() && options.command.empty())
    throw UsageError("a program is needed before the ':'; write hvdrun -np 1 ./a : -np 3 ./b");
}

// Everything before the program; the program goes to options.command.
std::vector<OptionUse> split_args(const std::vector<std::string>& args, Options& options) {
  std::vector<OptionUse> uses;
  std::size_t i = 0;
  bool as_it_is = false;
  std::string assigned;
  for (; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      ++i;
      as_it_is = true;
      break;
    }
    if (is_assignment(arg)) {
      add_use(uses, {find_option("-x"), arg, {arg}, true});
      assigned = arg;
      continue;
    }
    if (arg.size() < 2 || arg.front() != '-') break;
    Word word = split_word(arg);
    if (word.row == nullptr) throw unknown_option(arg);
    const std::size_t count = count_values(*word.row);
    if (count == 0 && word.value)
      throw UsageError("option " + quoted_word(arg) + " takes no value");
    OptionUse use{word.row, word.spelling, {}, true};
    if (word.value) use.values.push_back(*word.value);
    const auto is_value = word.row->is_value;
    if (is_value != nullptr && !word.value && (i + 1 == args.size() || !is_value(args[i + 1])))
      use.values.emplace_back("on");
    while (use.values.size() < count) {
      if (i + 1 == args.size() || args[i + 1] == "--") throw no_value(word.spelling, *word.row);
      use.values.push_back(args[++i]);
    }
    if (count == 0) use.on = !word.spelling.starts_with("--no-");
    check_hosts_once(uses, use);
    const bool help = std::string_view(word.row->name) == "help";
    add_use(uses, std::move(use));
    if (help && i + 1 < args.size() && is_topic(args[i + 1])) options.help_topic = args[++i];
  }
  options.command.assign(args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
  if (!as_it_is) split_parts(options);
  if (!options.parts.empty() && !assigned.empty())
    throw UsageError(
        quoted_word(assigned) + " before one of several programs: for all of them write -x " +
        printable(assigned) + ", for the first alone env " + printable(assigned) + " before it");
  return uses;
}

// HVDRUN_NP=4 is -np 4, HVDRUN_VERBOSE=1 is --verbose. Other HVDRUN_ variables are not ours.
std::vector<OptionUse> environment_uses(const Environment& env) {
  std::vector<OptionUse> uses;
  // horovodrun reads this one.
  if (const char* const seconds = find_variable(env, kHorovodStartTimeout); seconds != nullptr)
    add_use(uses, {find_option("--start-timeout"), kHorovodStartTimeout, {seconds}, true});
  for (const std::string& entry : env) {
    if (!entry.starts_with(kVariablePrefix)) continue;
    const auto equals = std::min(entry.find('='), entry.size());
    std::string option = "--";
    for (const char c : std::string_view(entry).substr(0, equals).substr(kVariablePrefix.size()))
      option += c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const std::string value = entry.substr(std::min(equals + 1, entry.size()));
    const OptionRow* const row = option.starts_with("--no-") ? nullptr : find_option(option);
    if (row == nullptr || row->topic == Topic::about || value.empty()) continue;
    for (OptionUse& use : uses_of_text(*row, entry.substr(0, equals), value))
      add_use(uses, std::move(use));
  }
  return uses;
}

std::vector<OptionUse> config_uses(const std::vector<OptionUse>& given) {
  const auto it = std::find_if(given.rbegin(), given.rend(),
                               [](const auto& use) { return names(use, "config-file"); });
  if (it == given.rend()) return {};
  const std::string path = to_text(*it);
  return parse_config(read_text_file(path, it->where), path);
}

}  // namespace

Options parse_options(const std::vector<std::string>& args, const Environment& env) {
  Options options;
  if (!args.empty() &&
      std::find(kCommandWords.begin(), kCommandWords.end(), args.front()) != kCommandWords.end()) {
    options.command_word = args.front();
    options.command.assign(args.begin() + 1, args.end());
    return options;
  }
  std::vector<OptionUse> given = environment_uses(env);
  for (OptionUse& use : split_args(args, options)) add_use(given, std::move(use));
  std::vector<OptionUse> uses = config_uses(given);
  for (OptionUse& use : given) add_use(uses, std::move(use));
  for (const OptionUse& use : uses) use.row->take(options, use);
  if (options.json && !options.dry_run)
    throw UsageError("--json belongs to --dry-run; write hvdrun --dry-run --json ...");
  if (options.command.empty() && !options.version && !options.help && !options.check_build &&
      options.generate.empty())
    throw UsageError("no program to run; write hvdrun -np 4 -H localhost:4 ./train");
  return options;
}

}  // namespace hvdrun
