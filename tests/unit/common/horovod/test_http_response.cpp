#include <algorithm>
#include <memory>

#include "common/horovod/http_response.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// All that is sent, when the socket takes so many bytes at a time.
std::string sent_in_steps_of(HttpResponse response, std::size_t step) {
  std::string all;
  for (auto pieces = response.pieces(); !pieces.empty(); pieces = response.pieces()) {
    std::string both;
    for (const std::string_view piece : pieces) {
      CHECK_FALSE(piece.empty());
      both += piece;
    }
    const std::size_t taken = std::min(step, both.size());
    all += both.substr(0, taken);
    response.sent(taken);
  }
  return all;
}

TEST_CASE("a response is sent whole, wherever the socket stops", "[http]") {
  const auto value = std::make_shared<const std::string>("0,1,2");
  const std::string whole =
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n0,1,2";
  for (std::size_t step = 1; step <= whole.size() + 1; ++step) {
    CAPTURE(step);
    CHECK(sent_in_steps_of({{200, value}, true}, step) == whole);
  }
}

TEST_CASE("a response without a value has a length of 0, and says that it is the last", "[http]") {
  CHECK(sent_in_steps_of({{404, nullptr}, false}, 1000) ==
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  const auto empty = std::make_shared<const std::string>();
  CHECK(sent_in_steps_of({{200, empty}, false}, 1000) ==
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  CHECK(HttpResponse().pieces().empty());
}

}  // namespace
}  // namespace hvdrun
