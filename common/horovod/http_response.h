// One answer of an HTTP/1.1 server, as far as it has been sent. Sans-I/O.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/horovod/horovod_dialect.h"

namespace hvdrun {

class HttpResponse {
 public:
  HttpResponse() = default;  // nothing to send
  // `keep_alive`: the client may send its next request over the same connection.
  HttpResponse(HorovodAnswer answer, bool keep_alive);

  // The bytes to be sent next, in one or two pieces; none: all have been.
  std::span<const std::string_view> pieces();
  void sent(std::size_t bytes) { sent_ += bytes; }

 private:
  std::string head_;
  HorovodBytes body_;
  std::size_t sent_ = 0;
  std::array<std::string_view, 2> pieces_;
};

}  // namespace hvdrun
