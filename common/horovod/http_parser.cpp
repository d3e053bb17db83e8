#include "common/horovod/http_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace hvdrun {
namespace {

// Before a request line, where a careless client has sent one newline too many after a body.
constexpr std::size_t kMaxEmptyLines = 4;

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

// A target: any visible byte, those above 127 included, because keys are taken as they are.
bool is_target(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7F;
  });
}

bool same_word(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// True when a comma list has this word.
bool lists(std::string_view list, std::string_view lower) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (same_word(trimmed(list.substr(begin, end - begin)), lower)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

void HttpParser::feed(std::string_view bytes) {
  if (fault_ != 0) return;
  // Drop what was used before growing, so that the buffer stays one request long.
  if (position_ > 0) {
    buffer_.erase(0, position_);
    scanned_ -= position_;
    position_ = 0;
  }
  buffer_ += bytes;
}

std::optional<HttpRequest> HttpParser::next(int& status) {
  while (fault_ == 0 && state_ != State::body) {
    const bool first = state_ == State::request_line;
    const auto line = take_line(first ? 414 : 431);
    if (!line) break;
    if (first) {
      read_request_line(*line);
    } else if (line->empty()) {
      state_ = State::body;
    } else {
      read_header(*line);
    }
  }
  status = fault_;
  if (fault_ != 0 || state_ != State::body || held() < length_) return std::nullopt;
  request_.body.assign(buffer_, position_, length_);
  position_ += length_;
  scanned_ = position_;
  state_ = State::request_line;
  headers_ = 0;
  empty_lines_ = 0;
  length_ = 0;
  return std::exchange(request_, {});
}

// Up to the next newline, without it and without a carriage return before it.
std::optional<std::string_view> HttpParser::take_line(int too_long) {
  const std::size_t end = buffer_.find('\n', scanned_);
  const bool whole = end != std::string::npos;
  const std::size_t size = (whole ? end : buffer_.size()) - position_;
  if (size > limits_.line) {
    fail(too_long);
    return std::nullopt;
  }
  if (!whole) {
    scanned_ = buffer_.size();
    return std::nullopt;
  }
  std::string_view line = std::string_view(buffer_).substr(position_, size);
  if (line.ends_with('\r')) line.remove_suffix(1);
  position_ = scanned_ = end + 1;
  return line;
}

void HttpParser::read_request_line(std::string_view line) {
  if (line.empty()) {
    if (++empty_lines_ > kMaxEmptyLines) fail(400);
    return;
  }
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return fail(400);
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || !is_target(target) || !version.starts_with("HTTP/")) return fail(400);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return fail(505);
  request_.method = method;
  request_.target = target;
  state_ = State::headers;
}

void HttpParser::read_header(std::string_view line) {
  if (++headers_ > limits_.headers) return fail(431);
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return fail(400);
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (value.find('\0') != std::string_view::npos || value.find('\r') != std::string_view::npos)
    return fail(400);
  if (same_word(name, "content-length")) {
    std::size_t length = 0;
    const char* const end = value.data() + value.size();
    const auto [at, ec] = std::from_chars(value.data(), end, length);
    if (value.empty() || at != end || (ec != std::errc() && ec != std::errc::result_out_of_range))
      return fail(400);
    if (ec == std::errc::result_out_of_range || length > limits_.body) return fail(413);
    if (request_.has_length && length != length_) return fail(400);
    request_.has_length = true;
    length_ = length;
  } else if (same_word(name, "transfer-encoding")) {
    fail(501);
  } else if (same_word(name, "connection")) {
    if (lists(value, "keep-alive")) request_.keep_alive = true;
  }
}

}  // namespace hvdrun
