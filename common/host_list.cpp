#include "common/host_list.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "common/limits.h"
#include "common/printable.h"

namespace hvdrun {
namespace {

constexpr std::string_view kExample = "; write host:slots, as in gpu1:4,gpu2:4";
constexpr std::string_view kRangeExample = "; write a range as in node[01-16]:4 or node[1,3,5-7]:4";
constexpr std::size_t kMaxRangeDigits = 9;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

// Digits only. A number that is too large becomes the largest.
bool parse_count(std::string_view text, std::uint32_t& number) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    number = 0xffffffffU;
  return true;
}

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

// One item, "host", "host:slots" or a range of them, into `names` and `slots`. Returns what is
// wrong, empty: nothing.
class ItemParser {
 public:
  explicit ItemParser(std::string_view item) : item_(item) {}

  std::string parse() {
    if (item_.empty()) return "an empty item in the list of hosts" + std::string(kExample);
    if (item_.find_first_of(" \t") != std::string_view::npos)
      return "a blank in " + quoted_word(item_) +
             "; separate hosts by commas only, as in gpu1:4,gpu2:4";
    if (item_.find('@') != std::string_view::npos)
      return "no user name can stand in " + quoted_word(item_) + "; it belongs into ~/.ssh/config";
    const std::size_t colon =
        item_.find(':', item_.rfind(']') == item_.npos ? 0 : item_.rfind(']'));
    const std::string_view name = item_.substr(0, colon);
    if (std::count(item_.begin(), item_.end(), ':') > 1)
      return "more than one ':' in " + quoted_word(item_) + std::string(kExample);
    if (name.empty()) return "no host name in " + quoted_word(item_) + std::string(kExample);
    if (name.front() == '-') return "a host name must not begin with '-': " + quoted_word(item_);
    if (std::string problem = expand(name); !problem.empty()) return problem;
    if (colon == std::string_view::npos) return {};
    if (!parse_count(item_.substr(colon + 1), slots))
      return "the number of slots is missing or not a number in " + quoted_word(item_) +
             std::string(kExample);
    if (slots > limits::kMaxSlotsPerHost)
      return "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots in " +
             quoted_word(item_);
    return {};
  }

  std::vector<std::string> names;
  std::uint32_t slots = 1;

 private:
  std::string expand(std::string_view name) {
    names = {""};
    for (std::size_t i = 0; i < name.size();) {
      if (name[i] != '[') {
        const auto end = std::min(name.find('[', i), name.size());
        const std::string_view part = name.substr(i, end - i);
        if (!std::all_of(part.begin(), part.end(), is_name_char))
          return "a character that no host name has in " + quoted_word(item_) +
                 std::string(kExample);
        for (std::string& known : names) known += part;
        i = end;
        continue;
      }
      const auto end = name.find(']', i);
      std::vector<std::string> parts;
      if (end == std::string_view::npos || !expand_brackets(name.substr(i + 1, end - i - 1), parts))
        return "what stands in the brackets of " + quoted_word(item_) +
               " is not a range of numbers" + std::string(kRangeExample);
      if (names.size() * parts.size() > limits::kMaxHosts) return too_many();
      std::vector<std::string> product;
      for (const std::string& known : names)
        for (const std::string& part : parts) product.push_back(known + part);
      names = std::move(product);
      i = end + 1;
    }
    if (names.front().size() > limits::kMaxHostName)
      return "a host name of " + std::to_string(names.front().size()) + " characters" +
             std::string(kExample);
    return {};
  }

  // "1,3,05-16": a first number with a leading zero gives all of its range that many digits.
  static bool expand_brackets(std::string_view text, std::vector<std::string>& parts) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const auto end = std::min(text.find(',', begin), text.size());
      const std::string_view part = text.substr(begin, end - begin);
      begin = end + 1;
      const auto dash = part.find('-');
      const std::string_view first = part.substr(0, dash);
      const std::string_view last = dash == part.npos ? first : part.substr(dash + 1);
      std::uint32_t low = 0;
      std::uint32_t high = 0;
      if (first.size() > kMaxRangeDigits || last.size() > kMaxRangeDigits ||
          !parse_count(first, low) || !parse_count(last, high) || high < low)
        return false;
      if (high - low >= limits::kMaxHosts || parts.size() > limits::kMaxHosts) return false;
      for (std::uint32_t number = low; number <= high; ++number) {
        std::string digits = std::to_string(number);
        if (first.front() == '0' && digits.size() < first.size())
          digits.insert(0, first.size() - digits.size(), '0');
        parts.push_back(std::move(digits));
      }
    }
    return true;
  }

  static std::string too_many() {
    return "more than " + std::to_string(limits::kMaxHosts) + " hosts";
  }

  std::string_view item_;
};

// The hosts so far; a name that comes again adds its slots to its first place.
class HostTable {
 public:
  std::string add(const std::vector<std::string>& names, std::uint32_t slots) {
    for (const std::string& name : names) {
      const auto [it, is_new] = index_.try_emplace(name, hosts_.size());
      if (is_new) {
        hosts_.push_back({name, slots});
        if (hosts_.size() > limits::kMaxHosts)
          return "more than " + std::to_string(limits::kMaxHosts) + " hosts";
      } else if ((hosts_[it->second].slots += slots) > limits::kMaxSlotsPerHost) {
        return "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots on host " +
               quoted_word(name);
      }
    }
    return {};
  }
  std::vector<HostSlots> take() { return std::move(hosts_); }

 private:
  std::vector<HostSlots> hosts_;
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
  ItemParser item(words.front());
  if (std::string problem = item.parse(); !problem.empty()) return problem;
  bool has_slots =
      words.front().ends_with(']') ? false : words.front().find(':') != std::string::npos;
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
    if (!parse_count(std::string_view(word).substr(equals + 1), number))
      return quoted_word(word) + ": a number is needed, as in slots=4";
    if (number > limits::kMaxSlotsPerHost)
      return "more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots in " +
             quoted_word(word);
    if (is_most) {
      most = std::max(1U, number);
    } else if (std::exchange(has_slots, true)) {
      return "the slots of " + quoted_word(words.front()) + " are given twice";
    } else {
      item.slots = number;
    }
  }
  if (most != 0 && item.slots > most)
    return quoted_word(words.front()) + " has more slots than its max_slots";
  return table.add(item.names, item.slots);
}

}  // namespace

std::optional<std::vector<HostSlots>> parse_host_list(std::string_view text,
                                                      HostListProblem& problem) {
  problem = {};
  HostTable table;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = item_end(text, begin);
    ItemParser item(text.substr(begin, end - begin));
    problem.text = item.parse();
    if (problem.text.empty()) problem.text = table.add(item.names, item.slots);
    if (!problem.text.empty()) {
      problem.at = begin;
      problem.size = end - begin;
      return std::nullopt;
    }
    begin = end + 1;
  }
  return table.take();
}

std::optional<std::vector<HostSlots>> parse_hostfile(std::string_view text,
                                                     HostListProblem& problem) {
  problem = {};
  HostTable table;
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
