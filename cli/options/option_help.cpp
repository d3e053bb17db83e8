#include "cli/options/option_help.h"

#include <string_view>

#include "cli/options/option_table.h"

namespace hvdrun {
namespace {

constexpr std::size_t kColumn = 32;  // where the explanations begin

std::string describe(const OptionRow& row, bool every_spelling) {
  std::string left = "  ";
  for (const std::string_view spelling : spellings_of(row)) {
    if (left.size() > 2) left += ", ";
    left += spelling;
    if (!every_spelling && spelling.starts_with("--")) break;
  }
  if (row.value != nullptr) left += " " + value_text(row);
  left += left.size() < kColumn ? std::string(kColumn - left.size(), ' ')
                                : "\n" + std::string(kColumn, ' ');
  return left + row.help + "\n";
}

}  // namespace

std::string help_text(const std::string& topic) {
  if (topic.empty()) {
    std::string text =
        "usage: hvdrun [OPTION]... [NAME=VALUE]... [--] PROGRAM [ARGUMENT]...\n"
        "Starts PROGRAM as the ranks of one job, and ends all when one fails.\n"
        "  hvdrun -np 4 -H localhost:4 ./train\n\n";
    for (const OptionRow* const row : option_table())
      if (row->page == Page::front) text += describe(*row, false);
    text += "\n--help TOPIC: all";
    for (const TopicRow& row : topic_table()) text += std::string(" ") + row.name;
    return text +
           "\nhvdrun ps lists your jobs, hvdrun status [JOB] shows one, hvdrun hosts [JOB]\n"
           "add|drain|remove HOST:SLOTS changes its hosts; hvdrun explain CODE: exit codes.\n";
  }
  std::string text;
  for (const TopicRow& heading : topic_table()) {
    if (topic != "all" && topic != heading.name) continue;
    text += std::string(text.empty() ? "" : "\n") + heading.heading + "\n\n";
    for (const OptionRow* const row : option_table())
      if (row->topic == heading.topic && row->page != Page::hidden) text += describe(*row, true);
  }
  return text;
}

}  // namespace hvdrun
