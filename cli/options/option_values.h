// The values of options: text into numbers, durations and choices. All throw UsageError, one line
// that names the option as it was written, the value, and what to write instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options/option_table.h"

namespace hvdrun {

UsageError bad_value(const OptionUse& use, const std::string& instead);

std::uint64_t to_whole(const OptionUse& use, std::uint64_t lowest, std::uint64_t highest);
double to_real(const OptionUse& use, double lowest, double highest);
// Seconds, or a number with a unit: 1.5, 500ms, 20s, 2m, 1h. At most a million seconds.
std::chrono::milliseconds to_duration(const OptionUse& use);
// Not empty.
std::string to_text(const OptionUse& use);
// Separated by commas, none empty.
std::vector<std::string> to_list(const OptionUse& use);
// Its words, separated by blanks; at least one.
std::vector<std::string> to_words(const OptionUse& use);

template <class T>
T to_choice(const OptionUse& use, const std::vector<std::pair<std::string, T>>& choices) {
  std::string list;
  for (const auto& [word, value] : choices) {
    if (word == use.value()) return value;
    list.append(list.empty() ? "" : " or ").append(word);
  }
  throw bad_value(use, "write " + list);
}

// An option given as text, in a variable or a file: a switch as 1, true, yes, on or their
// opposites, several values with blanks between them, several uses on a line each.
std::vector<OptionUse> uses_of_text(const OptionRow& row, const std::string& where,
                                    const std::string& text);

// --grace: seconds, or steps such as TERM,20s,KILL; the last must be KILL.
void take_grace(Options& options, const OptionUse& use);
void take_stdin(Options& options, const OptionUse& use);
void take_gpus(Options& options, const OptionUse& use);  // in gpu_option.cpp
void take_env_compat(Options& options, const OptionUse& use);
// -x, and srun's --export=ALL.
void take_export(Options& options, const OptionUse& use);

// The value of --tag-output: on, off or a template.
std::string to_tag(const OptionUse& use);
// True where a word behind --tag-output is its value: on, off or a template. A bare --tag-output,
// as Open MPI has it, is followed by an option or the program.
bool looks_like_tag(std::string_view word);

}  // namespace hvdrun
