#include "cli/openers/ssh/ssh_config.h"

#include <algorithm>

namespace hvdrun {

SshConfig::SshConfig(std::string_view text) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos || blank == 0) continue;
    std::string keyword(line.substr(0, blank));
    std::transform(keyword.begin(), keyword.end(), keyword.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    values_[std::move(keyword)].emplace_back(line.substr(blank + 1));
  }
}

std::string_view SshConfig::value(std::string_view keyword) const {
  const auto found = values_.find(keyword);
  return found == values_.end() ? std::string_view() : std::string_view(found->second.front());
}

bool SshConfig::is_on(std::string_view keyword) const {
  return value(keyword) == "yes" || value(keyword) == "true";
}

bool SshConfig::is_set(std::string_view keyword) const {
  const std::string_view text = value(keyword);
  return !text.empty() && text != "none" && text != "no" && text != "false";
}

std::vector<std::string> SshConfig::values(std::string_view keyword) const {
  const auto found = values_.find(keyword);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> SshConfig::words(std::string_view keyword, char separator) const {
  std::vector<std::string> words;
  for (std::string_view rest = value(keyword); !rest.empty();) {
    const auto end = std::min(rest.find(separator), rest.size());
    if (end > 0) words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

}  // namespace hvdrun
