#include "cli/hosts/host_list.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

// Where a list of hosts or of a range's parts is cut: at commas outside of brackets.
std::size_t item_end(std::string_view text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

// The hosts so far; one that comes again adds its slots to its first place. Names are compared as
// DNS and ssh compare them, without case.
class HostTable {
 public:
  std::string add(const HostItem& item) {
    const std::uint32_t slots = item.slots.value_or(1);
    for (const std::string& name : item.names) {
      const auto [it, is_new] = index_.try_emplace(key_of(name, item.login), hosts_.size());
      if (is_new) {
        hosts_.push_back({name, slots, item.login, 1, item.slots.has_value()});
        if (hosts_.size() > limits::kMaxHosts)
          return "more than " + std::to_string(limits::kMaxHosts) + " hosts";
        continue;
      }
      HostEntry& host = hosts_[it->second];
      ++host.mentions;
      host.counted = host.counted || item.slots;
      if ((host.slots += slots) > limits::kMaxSlotsPerHost)
        return "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots on host " +
               quoted_word(name);
    }
    return {};
  }
  std::vector<HostEntry> take() { return std::move(hosts_); }

 private:
  static std::string key_of(const std::string& name, const HostLogin& login) {
    std::string key = login.user + ' ' + std::to_string(login.port) + ' ';
    for (const char c : name) key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return key;
  }

  std::vector<HostEntry> hosts_;
  std::unordered_map<std::string, std::size_t> index_;
};

// The words of a line of a hostfile, "slots = 4" as one.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool glue = false;
  while (true) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const auto end = std::min(line.find_first_of(" \t\r", begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    if (!words.empty() && (glue || word.front() == '=')) {
      words.back() += word;
    } else {
      words.emplace_back(word);
    }
    glue = word.back() == '=';
    line.remove_prefix(end);
  }
}

std::string parse_hostfile_line(const std::vector<std::string>& words, HostTable& table) {
  HostItem item;
  if (std::string problem = parse_host_item(words.front(), item); !problem.empty()) return problem;
  std::uint32_t most = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const bool is_most = key == "max_slots" || key == "max-slots" || key == "max_count";
    if (equals == std::string::npos ||
        (key != "slots" && key != "cpus" && key != "count" && !is_most))
      return quoted_word(word) + " is not understood; write 'host slots=4' or host:4";
    std::uint32_t number = 0;
    if (!parse_host_count(std::string_view(word).substr(equals + 1), number))
      return quoted_word(word) + ": a number is needed, as in slots=4";
    if (number > limits::kMaxSlotsPerHost)
      return "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots in " +
             quoted_word(word);
    if (is_most) {
      most = std::max(1U, number);
    } else if (item.slots) {
      return "the slots of " + quoted_word(words.front()) +
             " are given twice; with a port it is host:port:slots";
    } else {
      item.slots = number;
    }
  }
  if (most != 0 && item.slots.value_or(1) > most)
    return quoted_word(words.front()) + " has more slots than its max_slots";
  return table.add(item);
}

}  // namespace

std::optional<std::vector<HostEntry>> parse_host_list(std::string_view text,
                                                      HostListProblem& problem) {
  problem = {};
  HostTable table;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = item_end(text, begin);
    HostItem item;
    problem.text = parse_host_item(text.substr(begin, end - begin), item);
    if (problem.text.empty()) problem.text = table.add(item);
    if (!problem.text.empty()) {
      problem.at = begin;
      problem.size = end - begin;
      return std::nullopt;
    }
    begin = end + 1;
  }
  return table.take();
}

std::optional<std::vector<HostEntry>> parse_hostfile(std::string_view text,
                                                     HostListProblem& problem) {
  problem = {};
  HostTable table;
  // As Windows' editors write it.
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    problem.line = 1;
    problem.text = "this file is UTF-16; save it as UTF-8";
    return std::nullopt;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    ++problem.line;
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    problem.text = parse_hostfile_line(words, table);
    if (!problem.text.empty()) return std::nullopt;
  }
  return table.take();
}

}  // namespace hvdrun
