#include "cli/options/exports.h"

#include <algorithm>

#include <fnmatch.h>

#include "cli/options/options.h"
#include "cli/text/text_file.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

bool is_pattern(std::string_view name) { return name.find_first_of("*?[") != name.npos; }

bool any_matches(const Environment& env, const std::string& pattern) {
  return std::any_of(env.begin(), env.end(), [&](const std::string& entry) {
    return ::fnmatch(pattern.c_str(), entry.substr(0, entry.find('=')).c_str(), 0) == 0;
  });
}

// Only a comment may stand behind the closing quote. Returns what is wrong.
std::string parse_quoted(std::string_view text, std::string& value) {
  const char quote = text.front();
  std::size_t i = 1;
  for (; i < text.size() && text[i] != quote; ++i) {
    if (quote == '"' && text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      value += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    } else {
      value += text[i];
    }
  }
  if (i == text.size()) return "the closing quote is missing";
  const std::string_view rest = trimmed(text.substr(i + 1));
  if (!rest.empty() && rest.front() != '#') return "nothing can stand behind the closing quote";
  return {};
}

std::string parse_value(std::string_view text, std::string& value) {
  if (!text.empty() && (text.front() == '"' || text.front() == '\''))
    return parse_quoted(text, value);
  // A # begins a comment behind a blank only, so that it can be part of a value.
  for (std::size_t at = text.find('#'); at != text.npos; at = text.find('#', at + 1)) {
    if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t') continue;
    text = text.substr(0, at);
    break;
  }
  value = trimmed(text);
  return {};
}

}  // namespace

void apply_exports(const std::vector<std::string>& exports, const Environment& own,
                   Environment& env, std::vector<std::string>& warnings) {
  for (const std::string& item : exports) {
    const auto equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (equals != std::string::npos) {
      if (is_pattern(name))
        throw UsageError("-x " + quoted_word(item) +
                         ": a pattern cannot be set; write one NAME=VALUE");
      set_variable(env, name, item.substr(equals + 1));
    } else if (is_pattern(name) ? any_matches(own, name) || any_matches(env, name)
                                : find_variable(env, name) != nullptr) {
      continue;  // it goes along anyway, or is an outer job's and no pattern's to bring back
    } else if (const char* const value = find_variable(own, name); value != nullptr) {
      set_variable(env, name, value);
    } else {
      warnings.push_back("-x " + printable(item) +
                         ": no such variable in the environment, ignoring");
    }
  }
}

std::vector<std::pair<std::string, std::string>> parse_env_file(std::string_view text,
                                                                const std::string& file) {
  std::vector<std::pair<std::string, std::string>> variables;
  std::size_t number = 0;
  for (std::string_view line : trimmed_lines(text)) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const std::string where = file + ":" + std::to_string(number) + ": ";
    constexpr std::string_view kExport = "export ";
    if (line.starts_with(kExport)) line = trimmed(line.substr(kExport.size()));
    const auto equals = line.find('=');
    const std::string_view name = line.substr(0, equals);
    if (equals == line.npos || name.empty() || name.find_first_of(" \t\"'#") != name.npos)
      throw UsageError(where + quoted_word(line) + ": write NAME=VALUE");
    std::string value;
    if (const std::string problem = parse_value(trimmed(line.substr(equals + 1)), value);
        !problem.empty())
      throw UsageError((where + std::string(name)).append(": ").append(problem));
    variables.emplace_back(name, std::move(value));
  }
  return variables;
}

}  // namespace hvdrun
