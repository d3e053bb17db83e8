#include "cli/output/output_tag.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "cli/text/user_errors.h"

namespace hvdrun {
namespace {

constexpr std::string_view kStandard = "[{rank}]<{stream}>:";
// Easy to tell apart on dark and on light; red is left to the programs' own errors.
constexpr auto kColors =
    std::to_array({"36", "32", "33", "35", "34", "96", "92", "93", "95", "94"});

std::vector<std::uint32_t> sorted(std::vector<std::uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace

std::string to_ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

void check_tag(const std::string& text) {
  OutputTag(text, false, false, std::make_shared<const RankTable>());
}

OutputTag::OutputTag(const std::string& text, bool timestamp, bool color,
                     std::shared_ptr<const RankTable> table)
    : color_(color), table_(std::move(table)), places_(table_->places()) {
  if (timestamp) pieces_.push_back({{}, Name::asctime});
  if (text == "on") {
    parse(std::string(kStandard));
  } else if (text != "off") {
    parse(text);
  } else if (timestamp) {
    pieces_.push_back({" ", Name::none});  // nothing else stands between the time and the line
  }
  has_time_ = std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
    return piece.name == Name::time || piece.name == Name::asctime;
  });
  if (!has_time_) cache_.resize(table_->size());
}

void OutputTag::parse(const std::string& text) {
  constexpr std::pair<std::string_view, Name> kNames[] = {{"rank", Name::rank},
                                                          {"local_rank", Name::local_rank},
                                                          {"host", Name::host},
                                                          {"stream", Name::stream},
                                                          {"time", Name::time}};
  const auto fault = [&](const std::string& what) {
    return UsageError("--tag-output '" + text + "': " + what +
                      "; the names are {rank} {local_rank} {host} {time} {stream}, as in "
                      "--tag-output '[{host}:{rank}] ', and {{ is a brace");
  };
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) pieces_.push_back({std::exchange(plain, {}), Name::none});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      plain += c;
      ++i;
    } else if (c == '{') {
      const auto end = text.find('}', i);
      const std::string name = text.substr(i + 1, end == std::string::npos ? end : end - i - 1);
      const auto* const found =
          std::find_if(std::begin(kNames), std::end(kNames),
                       [&](const auto& known) { return known.first == name; });
      if (end == std::string::npos || found == std::end(kNames))
        throw fault("there is no " + text.substr(i, name.size() + 2));
      flush();
      pieces_.push_back({{}, found->second});
      i = end;
    } else if (c == '}') {
      throw fault("a } without its {");
    } else {
      plain += c;
    }
  }
  flush();
}

void OutputTag::grow() {
  for (auto slot = static_cast<std::uint32_t>(places_.size()); slot < table_->size(); ++slot)
    places_.push_back((*table_)[slot]);
  if (!has_time_) cache_.resize(places_.size());
}

void OutputTag::begin_epoch(const std::vector<EpochMember>& members) {
  for (const EpochMember& member : members)
    if (member.slot < places_.size()) places_[member.slot] = member.place;
  cache_.assign(cache_.size(), {});
}

const std::string& OutputTag::render(const std::vector<std::uint32_t>& ranks, OutputStream stream,
                                     WallTime now) {
  if (pieces_.empty()) return current_;
  if (ranks.size() == 1 && ranks.front() < cache_.size()) {
    std::string& cached = cache_[ranks.front()][stream == OutputStream::out ? 0 : 1];
    if (cached.empty()) cached = build(ranks, stream, now);
    return cached;
  }
  return current_ = build(ranks, stream, now);
}

std::string OutputTag::build(const std::vector<std::uint32_t>& ranks, OutputStream stream,
                             WallTime now) {
  std::string text;
  for (const Piece& piece : pieces_)
    text += piece.name == Name::none ? piece.text : value(piece.name, ranks, stream, now);
  if (!color_) return text;
  // stderr in reverse, so that it is told from stdout whatever the template.
  const std::string color = ranks.size() == 1 ? kColors[ranks.front() % kColors.size()] : "1";
  return "\x1b[" + std::string(stream == OutputStream::err ? "7;" : "") + color + "m" + text +
         "\x1b[0m";
}

std::string OutputTag::value(Name name, const std::vector<std::uint32_t>& ranks,
                             OutputStream stream, WallTime now) {
  const auto each = [&](auto member) {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(ranks.size());
    for (const std::uint32_t rank : ranks) numbers.push_back(places_[rank].*member);
    return sorted(std::move(numbers));
  };
  switch (name) {
    case Name::rank:
      return to_ranges(each(&RankPlace::rank));
    case Name::local_rank:
      return to_ranges(each(&RankPlace::local_rank));
    case Name::host: {
      const auto hosts = each(&RankPlace::host);
      return hosts.size() == 1 ? table_->hosts()[hosts.front()].name
                               : std::to_string(hosts.size()) + " hosts";
    }
    case Name::stream:
      return stream == OutputStream::out ? "stdout" : "stderr";
    case Name::time:
    case Name::asctime:
      return format_time(name, now);
    case Name::none:
      break;
  }
  return {};
}

std::string OutputTag::format_time(Name name, WallTime now) {
  const std::time_t second =
      std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  if (second != second_) {
    second_ = second;
    ::localtime_r(&second, &calendar_);
  }
  char text[64];
  if (name == Name::asctime) {
    // Not strftime: the names of days and months are C's, whatever the locale.
    ::asctime_r(&calendar_, text);
    return {text, std::string_view(text).find('\n')};
  }
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &calendar_);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
      now - std::chrono::floor<std::chrono::seconds>(now));
  std::snprintf(text + size, sizeof text - size, ".%03d", static_cast<int>(ms.count()));
  return text;
}

}  // namespace hvdrun
