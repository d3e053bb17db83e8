// Requests of HTTP/1.0 and 1.1, out of bytes as they come, in any split. Sans-I/O. It reads what a
// key-value client sends: a request line, headers, a body of Content-Length bytes; it refuses what
// two readers could take for different requests (two lengths, folded headers, chunks).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/limits.h"

namespace hvdrun {

struct HttpRequest {
  std::string method;
  std::string target;  // as sent: nothing is decoded
  std::string body;
  bool has_length = false;  // there was a Content-Length
  bool keep_alive = false;  // asked for with "Connection: keep-alive"
};

struct HttpLimits {
  std::size_t line = limits::kMaxHttpLine;  // bytes of the request line, and of a header line
  std::size_t headers = limits::kMaxHttpHeaders;
  std::size_t body = limits::kMaxStoreValue;
};

class HttpParser {
 public:
  explicit HttpParser(HttpLimits limits = {}) : limits_(limits) {}

  // Takes the next bytes of the stream.
  void feed(std::string_view bytes);
  // The next whole request, or nothing. After a fault `status` is what to answer (400, 413, 414,
  // 431, 501 or 505) and stays so: where the next request begins is not known any more. Else it
  // is 0.
  std::optional<HttpRequest> next(int& status);

  // Something of a request that is not whole yet has come.
  bool mid_request() const { return state_ != State::request_line || position_ < buffer_.size(); }
  // Bytes held; those of requests that were handed out do not count.
  std::size_t held() const { return buffer_.size() - position_; }

 private:
  enum class State : std::uint8_t { request_line, headers, body };

  std::optional<std::string_view> take_line(int too_long);
  void read_request_line(std::string_view line);
  void read_header(std::string_view line);
  void fail(int status) { fault_ = status; }

  HttpLimits limits_;
  std::string buffer_;
  std::size_t position_ = 0;  // of the first byte not used yet
  std::size_t scanned_ = 0;   // no line ends between position_ and here
  State state_ = State::request_line;
  HttpRequest request_;
  std::size_t headers_ = 0;      // lines so far
  std::size_t empty_lines_ = 0;  // before the request line
  std::size_t length_ = 0;       // of the body
  int fault_ = 0;
};

}  // namespace hvdrun
