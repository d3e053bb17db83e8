#include "cli/output/output_formatter.h"

#include <algorithm>

namespace hvdrun {
namespace {

// The rest of a progress bar goes before another line takes its place.
constexpr std::string_view kClearLine = "\x1b[K";

}  // namespace

void OutputFormatter::begin(const std::optional<Source>& source) {
  text_.clear();
  if (unfinished_ && unfinished_ != source) {
    text_ += '\n';
    unfinished_.reset();
  }
}

const std::string& OutputFormatter::format(const Output& message, WallTime now) {
  const Source source{message.rank, message.stream};
  begin(source);
  std::string_view rest = message.bytes;
  if (after_cr_ == source && rest.starts_with('\n')) {
    text_ += '\n';
    rest.remove_prefix(1);
    ends_with_cr_ = false;
  }
  after_cr_.reset();
  if (message.bytes.ends_with('\r')) after_cr_ = source;
  const bool as_it_is = tag_.empty() && !tag_.has_color() && text_.empty();
  if (as_it_is) {
    if (!rest.empty()) ends_with_cr_ = rest.back() == '\r';
  } else {
    one_.front() = message.rank;
    append_lines(rest, tag_.render(one_, message.stream, now), !unfinished_);
  }
  if (!message.bytes.empty()) unfinished_.reset();
  if (!message.bytes.empty() && message.bytes.back() != '\n' && message.bytes.back() != '\r')
    unfinished_ = source;
  return as_it_is ? message.bytes : text_;
}

const std::string& OutputFormatter::format_folded(const std::vector<std::uint32_t>& ranks,
                                                  OutputStream stream, std::string_view lines,
                                                  WallTime now) {
  begin(std::nullopt);
  after_cr_.reset();
  append_lines(lines, tag_.render(ranks, stream, now), true);
  return text_;
}

const std::string& OutputFormatter::format_end(std::uint32_t rank, OutputStream stream) {
  text_.clear();
  if (unfinished_ == Source{rank, stream} && !tag_.empty()) {
    text_ += '\n';
    unfinished_.reset();
  }
  return text_;
}

const std::string& OutputFormatter::format_notice(std::string_view line) {
  begin(std::nullopt);
  after_cr_.reset();
  append_lines(line, {}, true);
  return text_;
}

void OutputFormatter::append_lines(std::string_view bytes, const std::string& tag, bool at_start) {
  // Most output has no \r at all, so it is looked for once, not in every line.
  std::size_t cr = bytes.find('\r');
  for (std::size_t begin = 0; begin < bytes.size();) {
    if (cr < begin) cr = bytes.find('\r', begin);
    std::size_t end = bytes.find('\n', begin);
    if (cr < end) {
      // \r\n is one line end.
      end = cr + 1 < bytes.size() && bytes[cr + 1] == '\n' ? cr + 1 : cr;
    }
    const std::size_t next = end == std::string_view::npos ? bytes.size() : end + 1;
    if (at_start) {
      if (ends_with_cr_ && tag_.has_color()) text_ += kClearLine;
      text_ += tag;
    }
    text_.append(bytes, begin, next - begin);
    at_start = true;
    ends_with_cr_ = bytes[next - 1] == '\r';
    begin = next;
  }
}

}  // namespace hvdrun
