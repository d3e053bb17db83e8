#include "common/horovod/http_response.h"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Error";
  }
}

// Horovod's client compares header names byte by byte: exactly "Content-Length".
std::string response_head(int status, std::size_t length, bool keep) {
  std::string head = "HTTP/1.1 ";
  head.append(std::to_string(status)).append(" ").append(reason_of(status));
  head.append("\r\nContent-Length: ").append(std::to_string(length));
  head.append(keep ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
  return head;
}

}  // namespace

HttpResponse::HttpResponse(HorovodAnswer answer, bool keep_alive) : body_(std::move(answer.value)) {
  head_ = response_head(answer.status, body_ ? body_->size() : 0, keep_alive);
}

std::span<const std::string_view> HttpResponse::pieces() {
  std::size_t count = 0;
  std::size_t done = sent_;
  const auto add = [&](std::string_view bytes) {
    if (done < bytes.size()) pieces_[count++] = bytes.substr(done);
    done -= std::min(done, bytes.size());
  };
  add(head_);
  if (body_) add(*body_);
  return {pieces_.data(), count};
}

}  // namespace hvdrun
