#include "cli/options/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <signal.h>
#include <sstream>
#include <string_view>

#include "common/base/printable.h"
#include "common/process/signal_words.h"

namespace hvdrun {
namespace {

constexpr double kMaxSeconds = 1e6;
constexpr std::size_t kMaxLadder = 16;

template <class T>
bool parse_number(std::string_view text, T& number) {
  const auto [at, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  return ec == std::errc() && at == text.data() + text.size() && !text.empty();
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  // "ms" before "s".
  static constexpr Unit kUnits[] = {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}};
  double unit = 1;
  for (const auto& [name, seconds] : kUnits) {
    if (!text.ends_with(name)) continue;
    text.remove_suffix(name.size());
    unit = seconds;
    break;
  }
  double number = 0;
  if (!parse_number(text, number) || !std::isfinite(number)) return std::nullopt;
  number *= unit;
  if (number < 0 || number > kMaxSeconds) return std::nullopt;
  return std::chrono::milliseconds(std::llround(number * 1000));
}

// TERM or SIGTERM; 0: no such signal.
int parse_signal(std::string_view text) {
  const std::string name = (text.starts_with("SIG") ? "" : "SIG") + std::string(text);
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal_name(signal) == name) return signal;
  return 0;
}

std::vector<std::string_view> split_list(std::string_view text, char separator = ',') {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace

UsageError bad_value(const OptionUse& use, const std::string& instead) {
  std::string text = use.where;
  for (const std::string& value : use.values) text += " " + quoted_word(value);
  return UsageError(text + ": " + instead);
}

std::uint64_t to_whole(const OptionUse& use, std::uint64_t lowest, std::uint64_t highest) {
  std::uint64_t number = 0;
  if (!parse_number(use.value(), number) || number < lowest || number > highest)
    throw bad_value(use, "a whole number from " + std::to_string(lowest) + " to " +
                             std::to_string(highest) + " is needed");
  return number;
}

double to_real(const OptionUse& use, double lowest, double highest) {
  double number = 0;
  // The comparison is false for a NaN too.
  if (!parse_number(use.value(), number) || !(number >= lowest && number <= highest))
    throw bad_value(use, "a number from " + std::to_string(std::llround(lowest)) + " to " +
                             std::to_string(std::llround(highest)) + " is needed");
  return number;
}

std::chrono::milliseconds to_duration(const OptionUse& use) {
  const auto duration = parse_duration(use.value());
  if (!duration) throw bad_value(use, "seconds are needed, as in 10 or 1.5, or 500ms, 2m, 1h");
  return *duration;
}

std::vector<std::string> to_words(const OptionUse& use) {
  std::istringstream text(to_text(use));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(std::move(word));
  if (words.empty()) throw bad_value(use, "no word in it");
  return words;
}

std::vector<std::string> to_list(const OptionUse& use) {
  std::vector<std::string> items;
  for (const std::string_view item : split_list(use.value())) items.emplace_back(item);
  for (const std::string& item : items)
    if (item.empty()) throw bad_value(use, "an item is empty; write them with commas between");
  return items;
}

std::string to_text(const OptionUse& use) {
  if (use.value().empty()) throw bad_value(use, "is empty");
  return use.value();
}

std::vector<OptionUse> uses_of_text(const OptionRow& row, const std::string& where,
                                    const std::string& text) {
  OptionUse use{&row, where, {text}, true};
  const std::size_t count = count_values(row);
  if (count == 0) {
    // YAML has True and TRUE too.
    for (char& c : use.values.front())
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    use.on = to_choice<bool>(use, {{"1", true},
                                   {"0", false},
                                   {"true", true},
                                   {"false", false},
                                   {"yes", true},
                                   {"no", false},
                                   {"on", true},
                                   {"off", false}});
    use.values.clear();
    return {use};
  }
  std::vector<OptionUse> uses;
  for (const std::string_view line : split_list(text, row.repeats ? '\n' : '\0')) {
    if (line.empty() && row.repeats) continue;
    use.values = {std::string(line)};
    if (count > 1) {
      const auto words = split_list(line, ' ');
      if (words.size() != count)
        throw bad_value(use, "write " + std::to_string(count) + " values: " + row.value);
      use.values.assign(words.begin(), words.end());
    }
    uses.push_back(use);
  }
  return uses;
}

void take_grace(Options& options, const OptionUse& use) {
  options.ladder.clear();
  if (const auto grace = parse_duration(use.value())) {
    options.grace = *grace;
    return;
  }
  options.grace = {};
  for (const std::string_view item : split_list(use.value())) {
    if (const int signal = parse_signal(item); signal != 0) {
      options.ladder.push_back({signal, {}});
    } else if (const auto wait = parse_duration(item); wait && !options.ladder.empty()) {
      options.ladder.back().wait += *wait;
      options.grace += *wait;
    } else {
      throw bad_value(use, "seconds, or signals and waits, as in 5 or TERM,20s,KILL");
    }
  }
  if (options.ladder.back().signal != SIGKILL)
    throw bad_value(use, "the last step must be KILL, as in TERM,20s,KILL");
  if (options.ladder.size() > kMaxLadder)
    throw bad_value(use, std::to_string(kMaxLadder) + " signals are the limit");
}

void take_stdin(Options& options, const OptionUse& use) {
  StdinTo to;
  to.given = true;
  if (use.value() == "all") {
    to.who = StdinTo::Who::all;
  } else if (use.value() != "none") {
    if (!parse_number(use.value(), to.rank))
      throw bad_value(use, "write none, all, or the number of one rank");
    to.who = StdinTo::Who::one;
  }
  options.output.stdin_to = to;
}

void take_env_compat(Options& options, const OptionUse& use) {
  constexpr const char* kWrite = "write some of horovod,torch,mpi-ids, or none alone";
  EnvCompat compat{.horovod = false, .torch = false, .mpi_ids = false};
  const auto items = split_list(use.value());
  for (const std::string_view item : items) {
    if (item == "horovod") {
      compat.horovod = true;
    } else if (item == "torch") {
      compat.torch = true;
    } else if (item == "mpi-ids") {
      compat.mpi_ids = true;
    } else if (item != "none" || items.size() > 1) {
      throw bad_value(use, kWrite);
    }
  }
  options.env_compat = compat;
}

void take_export(Options& options, const OptionUse& use) {
  const std::string& value = use.value();
  if (value.empty() || value.front() == '=')
    throw bad_value(use, "no name; write -x NAME or -x NAME=VALUE");
  const bool of_srun = use.where == "--export";
  if (of_srun && value == "ALL") return;
  if (of_srun && (value == "NONE" || value == "NIL"))
    throw bad_value(use,
                    "hvdrun hands its whole environment on; put env -i NAME=VALUE before the "
                    "program for another one");
  if (value.substr(0, value.find('=')).find(',') != std::string::npos)
    throw bad_value(use,
                    "one variable each, as in -x A=1 -x B; all of hvdrun's environment goes along "
                    "anyway");
  options.exports.push_back(value);
}

std::string to_tag(const OptionUse& use) {
  std::string text = to_text(use);
  if (text == "1" || text == "true" || text == "yes") return "on";
  if (text == "0" || text == "false" || text == "no") return "off";
  return text;
}

bool looks_like_tag(std::string_view word) {
  return word == "on" || word == "off" || word.find('{') != std::string_view::npos;
}

}  // namespace hvdrun
