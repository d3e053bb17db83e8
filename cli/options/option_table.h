// All options of hvdrun: one row each, from which parsing, help, man page and completions are made.
// A new option is a row in option_table.cpp and a field of Options; the options that hvdrun takes
// from horovodrun and mpirun stand in horovod_options.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/options.h"

namespace hvdrun {

struct OptionRow;

// An option as it was given.
struct OptionUse {
  const OptionRow* row = nullptr;
  std::string where;                // as the user wrote it: "-np", say
  std::vector<std::string> values;  // none for a switch
  bool on = true;                   // a switch in its --no- spelling: false

  const std::string& value() const { return values.front(); }
};

enum class Topic : std::uint8_t {
  ranks,
  environment,
  output,
  ending,
  network,
  horovod,
  mpirun,
  about,  // never read from HVDRUN_*
};

enum class Page : std::uint8_t { front, topic, hidden };  // of --help

struct OptionRow {
  const char* name;       // canonical, without dashes
  const char* spellings;  // every way to write it, blank separated; --no-... turns a switch off
  const char* value;      // what the value is called (two words: two values); nullptr: a switch
  Page page;
  Topic topic;
  const char* help;  // one line
  // Puts a use into the options; throws UsageError.
  void (*take)(Options&, const OptionUse&);
  bool repeats = false;  // every use counts, not only the last
  const char* detail =
      nullptr;  // for `take`: the variable that is set, or what replaces the option
  // Its value may be left out. Whether the next word is one; else it was left out, and is "on".
  bool (*is_value)(std::string_view word) = nullptr;
};

// In the order of the documents.
std::vector<const OptionRow*> option_table();
std::span<const OptionRow> horovod_options();

// The row that has this spelling, or nullptr. Every row has "--" + its name as one.
const OptionRow* find_option(std::string_view spelling);
std::vector<std::string_view> spellings_of(const OptionRow& row);
// 0 for a switch.
std::size_t count_values(const OptionRow& row);
// For documents: "FILE", in brackets where it may be left out; empty for a switch.
std::string value_text(const OptionRow& row);

// The name of a topic as --help takes it, and its heading.
struct TopicRow {
  Topic topic;
  const char* name;
  const char* heading;
};
std::span<const TopicRow> topic_table();

}  // namespace hvdrun
