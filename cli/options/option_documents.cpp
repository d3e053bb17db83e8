#include "cli/options/option_documents.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <vector>

#include "cli/options/build_info.h"
#include "cli/options/option_table.h"
#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

// roff takes a dash for a hyphen, and a dot or quote at the start of a line for a request.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '-' || c == '\\') result += '\\';
    result += c == '\\' ? 'e' : c;
  }
  return !result.empty() && (result.front() == '.' || result.front() == '\'') ? "\\&" + result
                                                                              : result;
}

std::string man_page() {
  std::string text =
      ".TH HVDRUN 1 \"\" \"hvdrun " + version_text() +
      "\"\n"
      ".SH NAME\n"
      "hvdrun \\- start a program as the ranks of one job\n"
      ".SH SYNOPSIS\n"
      ".B hvdrun\n"
      ".RI [ OPTION ]...\n"
      ".RI [ NAME=VALUE ]...\n"
      ".RB [ \\-\\- ]\n"
      ".I PROGRAM\n"
      ".RI [ ARGUMENT ]...\n"
      ".br\n"
      ".B hvdrun ps\n"
      ".br\n"
      ".B hvdrun status\n"
      ".RI [ JOB ]\n"
      ".br\n"
      ".B hvdrun hosts\n"
      ".RI [ JOB ]\n"
      ".BR add | drain | remove\n"
      ".IR HOST [:SLOTS]...\n"
      ".br\n"
      ".B hvdrun reload\n"
      ".RI [ JOB ]\n"
      ".br\n"
      ".B hvdrun explain\n"
      ".I CODE\n"
      ".SH DESCRIPTION\n"
      "Starts\n"
      ".I PROGRAM\n"
      "as the ranks of one job, tells each its rank in the environment, shows their "
      "output line by line, ends all of them when one fails, and returns the exit "
      "code of the first that failed. Options stand before the program.\n"
      ".PP\n"
      "ps lists your jobs on this machine, status shows the ranks of one: the state of each, "
      "its process and what that waits for. hosts lets an elastic job use more hosts, or leave "
      "some: drain waits for the next commit, remove does not. reload reads its list of hosts "
      "now. explain tells what an exit code means.\n"
      ".PP\n"
      "Each option has a variable: HVDRUN_NP=4 is \\-\\-np 4. The command line beats "
      "the variable, which beats a configuration file.\n";
  for (const TopicRow& topic : topic_table()) {
    text += ".SH " + roff(topic.heading) + "\n";
    for (const OptionRow* const row : option_table()) {
      if (row->topic != topic.topic || row->page == Page::hidden) continue;
      text += ".TP\n";
      std::string left;
      for (const std::string_view spelling : spellings_of(*row))
        left += (left.empty() ? "\\fB" : ", \\fB") + roff(spelling) + "\\fR";
      if (row->value != nullptr) left += " \\fI" + roff(value_text(*row)) + "\\fR";
      text += left + "\n" + roff(row->help);
      if (topic.topic == Topic::horovod && row->detail != nullptr)
        text += " (" + roff(row->detail) + ")";
      text += "\n";
    }
  }
  text +=
      ".SH EXIT STATUS\nThe exit code of the first rank that failed, 128 and the number of the "
      "signal that ended it, or one of hvdrun's own:\n";
  for (const exit_code::Row& row : exit_code::kTable)
    text += ".TP\n" + std::to_string(row.number) + "\n" + roff(row.meaning) + "\n";
  return text +
         ".SH EXAMPLES\n"
         ".nf\n"
         "hvdrun \\-np 4 ./train\n"
         "hvdrun \\-H node[01\\-04]:8 \\-x 'NCCL_*' ./train\n"
         ".fi\n";
}

// The words of a value such as "auto|always|never"; none when it is a placeholder such as FILE.
std::vector<std::string_view> choices_of(const OptionRow& row) {
  std::vector<std::string_view> words;
  for (std::string_view rest = row.value == nullptr ? "" : row.value; !rest.empty();) {
    const auto end = std::min(rest.find('|'), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (word.front() >= 'a' && word.front() <= 'z') words.push_back(word);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

std::string joined(const std::vector<std::string_view>& words, const char* separator) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

// The spellings of all options that take so many values, whether or not that may be left out.
std::string spellings_with(std::size_t values, bool optional, const char* separator) {
  std::string list;
  for (const OptionRow* const row : option_table())
    if (row->page != Page::hidden && count_values(*row) == values &&
        (row->is_value != nullptr) == optional)
      list.append(list.empty() ? "" : separator).append(joined(spellings_of(*row), separator));
  return list;
}

std::string bash_completion() {
  std::string options;
  std::string cases;
  for (const OptionRow* const row : option_table()) {
    if (row->page == Page::hidden) continue;
    const auto spellings = spellings_of(*row);
    options += " " + joined(spellings, " ");
    if (row->value == nullptr) continue;
    if (const auto choices = choices_of(*row); !choices.empty())
      cases += "    " + joined(spellings, "|") + ")\n" +
               (row->is_value == nullptr
                    ? "      COMPREPLY=($(compgen -W '" + joined(choices, " ") +
                          "' -- \"$word\"))\n      return ;;\n"
                    : "      if [[ $word != -* ]]; then  # or the program\n"
                      "        COMPREPLY=($(compgen -W '" +
                          joined(choices, " ") +
                          "' -- \"$word\") $(compgen -f -- \"$word\") $(compgen -c -- "
                          "\"$word\"))\n        return\n      fi ;;\n");
  }
  const std::string one = spellings_with(1, false, "|");
  const std::string two = spellings_with(2, false, "|");
  return "# bash completion for hvdrun\n"
         "_hvdrun() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words=() before i\n"
         "  # Readline takes --np=4, host:4 and NAME=VALUE apart.\n"
         "  for ((i = 0; i < COMP_CWORD; i++)); do\n"
         "    if ((i > 0)) && [[ ${COMP_WORDS[i]} == [=:]* || ${words[-1]} == *[=:] ]]; then\n"
         "      words[-1]+=${COMP_WORDS[i]}\n"
         "    else\n"
         "      words+=(\"${COMP_WORDS[i]}\")\n"
         "    fi\n"
         "  done\n"
         "  [[ $word != = ]] || word=\n"
         "  before=${words[-1]%=}\n"
         "  for ((i = 1; i < ${#words[@]}; i++)); do\n"
         "    case ${words[i]} in\n"
         "      --) ((i++)); break ;;\n"
         "      -*=*) ;;\n"
         "      " +
         one + ") ((i += 1)) ;;\n      " + two + ") ((i += 2)) ;;\n      " +
         spellings_with(1, true, "|") +
         ") [[ ${words[i + 1]} != @(on|off|*{*) ]] || ((i += 1)) ;;\n"
         "      -*) ;;\n"
         "      [A-Za-z_]*=*) ;;\n"
         "      *) break ;;\n"
         "    esac\n"
         "  done\n"
         "  if ((i < ${#words[@]})); then  # the program's own arguments\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case $before in\n" +
         cases + "    " + one + "|" + two +
         ")\n"
         "      COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "      return ;;\n"
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         options.substr(1) +
         "' -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$word\") $(compgen -c -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _hvdrun hvdrun\n";
}

// For zsh between '[' and ']', and for fish between single quotes.
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string zsh_completion() {
  std::string text =
      "#compdef hvdrun\n"
      "# NAME=VALUE before the program is not the program.\n"
      "integer i=2\n"
      "while ((i < CURRENT)); do\n"
      "  if [[ $words[i] == [A-Za-z_]*=* && $words[i-1] != -* ]]; then\n"
      "    words[i]=()\n"
      "    ((CURRENT--))\n"
      "  else\n"
      "    ((i++))\n"
      "  fi\n"
      "done\n"
      "_arguments -S";
  for (const OptionRow* const row : option_table()) {
    if (row->page == Page::hidden) continue;
    for (const std::string_view spelling : spellings_of(*row)) {
      std::string item = (row->repeats ? "*" : "") + std::string(spelling) + "[" +
                         escaped(row->help, "[]:\\") + "]";
      if (row->value != nullptr) {
        const auto choices = choices_of(*row);
        const std::string action = choices.empty() ? "_files" : "(" + joined(choices, " ") + ")";
        for (std::size_t i = 0; i < count_values(*row); ++i)
          item +=
              (row->is_value == nullptr ? ":" : "::") + escaped(row->value, "[]:\\") + ":" + action;
      }
      text += " \\\n  " + zsh_quoted(item);
    }
  }
  return text + " \\\n  '(-)1:program: _command_names -e' \\\n  '*::arguments: _normal'\n";
}

std::string fish_completion() {
  std::string text =
      "# fish completion for hvdrun\n"
      "function __hvdrun_has_program -d 'what follows are arguments of the program'\n"
      "  set -l words (commandline -opc)\n"
      "  set -l skip 1\n"
      "  set -l may_skip 0\n"
      "  for word in $words\n"
      "    if test $skip -gt 0\n"
      "      set skip (math $skip - 1)\n"
      "      continue\n"
      "    end\n"
      "    if test $may_skip -gt 0\n"
      "      set may_skip 0\n"
      "      if string match -qr '^(on|off|.*\\{.*)$' -- $word\n"
      "        continue\n"
      "      end\n"
      "    end\n"
      "    switch $word\n"
      "      case " +
      spellings_with(1, false, " ") +
      "\n        set skip 1\n"
      "      case " +
      spellings_with(2, false, " ") +
      "\n        set skip 2\n"
      "      case " +
      spellings_with(1, true, " ") +
      "\n        set may_skip 1\n"
      "      case '-*' '*=*'\n"
      "      case '*'\n"
      "        return 0\n"
      "    end\n"
      "  end\n"
      "  return 1\n"
      "end\n"
      "complete -c hvdrun -n 'not __hvdrun_has_program' -a '(__fish_complete_command)'\n";
  for (const OptionRow* const row : option_table()) {
    if (row->page == Page::hidden) continue;
    text += "complete -c hvdrun -n 'not __hvdrun_has_program'";
    for (const std::string_view spelling : spellings_of(*row)) {
      const std::string_view name = spelling.substr(spelling.starts_with("--") ? 2 : 1);
      text += (spelling.starts_with("--") ? " -l " : name.size() == 1 ? " -s " : " -o ");
      text += name;
    }
    if (row->value != nullptr) {
      if (row->is_value == nullptr) text += " -r";
      if (const auto choices = choices_of(*row); !choices.empty())
        text += (row->is_value == nullptr ? " -f -a '" : " -a '") + joined(choices, " ") + "'";
    }
    text += " -d '" + escaped(row->help, "'\\") + "'\n";
  }
  return text;
}

}  // namespace

std::string option_document(const std::string& kind) {
  if (kind == "man") return man_page();
  if (kind == "bash") return bash_completion();
  if (kind == "zsh") return zsh_completion();
  assert(kind == "fish");
  return fish_completion();
}

}  // namespace hvdrun
