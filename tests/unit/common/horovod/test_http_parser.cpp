#include <random>
#include <vector>

#include "common/horovod/http_parser.h"
#include "tests/catch.h"
#include "tests/soak.h"

namespace hvdrun {
namespace {

using namespace std::string_literals;

// A parser's result of a stream: its requests, then the fault (0: none).
struct Parsed {
  std::vector<HttpRequest> requests;
  int status = 0;
  bool mid_request = false;
};

void take_all(HttpParser& parser, Parsed& parsed) {
  while (auto request = parser.next(parsed.status)) parsed.requests.push_back(std::move(*request));
}

Parsed parse(const std::vector<std::string>& pieces, HttpLimits limits = {}) {
  HttpParser parser(limits);
  Parsed parsed;
  for (const std::string& piece : pieces) {
    parser.feed(piece);
    take_all(parser, parsed);
  }
  parsed.mid_request = parser.mid_request();
  return parsed;
}

std::string describe(const Parsed& parsed) {
  std::string text = std::to_string(parsed.status);
  for (const HttpRequest& request : parsed.requests)
    text += "|" + request.method + " " + request.target + " " + request.body +
            (request.has_length ? " length" : "") + (request.keep_alive ? " keep" : "");
  return text;
}

int fault_of(const std::string& bytes, HttpLimits limits = {}) {
  return parse({bytes}, limits).status;
}

// As Horovod's client writes them, and as curl does.
const std::string kStream =
    "PUT /global/3 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\na\r\n\0b"
    "GET /rank_and_size/gpu1:0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    "GET /a/b HTTP/1.0\r\nUser-Agent: x\r\nconnection: close, Keep-Alive\r\n\r\n"
    "DELETE /global/3 HTTP/1.1\ncontent-length:\t0 \n\n"s;

TEST_CASE("requests come out whole, with binary bodies", "[http_parser]") {
  const Parsed parsed = parse({kStream});
  CHECK(parsed.status == 0);
  CHECK_FALSE(parsed.mid_request);
  REQUIRE(parsed.requests.size() == 4);
  CHECK(parsed.requests[0].method == "PUT");
  CHECK(parsed.requests[0].target == "/global/3");
  CHECK(parsed.requests[0].body == std::string("a\r\n\0b", 5));
  CHECK(parsed.requests[0].has_length);
  CHECK_FALSE(parsed.requests[0].keep_alive);
  CHECK(parsed.requests[1].target == "/rank_and_size/gpu1:0");
  CHECK(parsed.requests[1].body.empty());
  CHECK(parsed.requests[2].keep_alive);
  CHECK_FALSE(parsed.requests[2].has_length);
  CHECK(parsed.requests[3].method == "DELETE");
}

TEST_CASE("every split of the stream in two gives the same requests", "[http_parser]") {
  const std::string whole = describe(parse({kStream}));
  for (std::size_t at = 0; at <= kStream.size(); ++at) {
    CAPTURE(at);
    CHECK(describe(parse({kStream.substr(0, at), kStream.substr(at)})) == whole);
  }
  std::vector<std::string> bytes;
  for (const char c : kStream) bytes.emplace_back(1, c);
  CHECK(describe(parse(bytes)) == whole);
}

TEST_CASE("every truncated prefix waits for the rest, and says so", "[http_parser]") {
  std::vector<std::size_t> ends;  // where a request is whole
  for (std::size_t size = 0; size <= kStream.size(); ++size) {
    CAPTURE(size);
    const Parsed parsed = parse({kStream.substr(0, size)});
    CHECK(parsed.status == 0);
    if (parsed.requests.size() > ends.size()) ends.push_back(size);
    CHECK(parsed.mid_request == (size > (ends.empty() ? 0 : ends.back())));
  }
  REQUIRE(ends.size() == 4);
  CHECK(ends[0] == kStream.find("GET"));
  CHECK(ends[3] == kStream.size());
}

TEST_CASE("random bytes and random changes never throw, and split the same", "[http_parser]") {
  std::mt19937_64 random(test::soak_seed("http_parser"));
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (std::size_t turn = 0; turn < test::soak_count(100'000); ++turn) {
    std::string bytes = kStream.substr(pick(kStream.size()));
    for (std::size_t i = pick(6); i > 0 && !bytes.empty(); --i) {
      const std::size_t at = pick(bytes.size());
      if (pick(2) == 0) {
        bytes[at] = static_cast<char>(random());
      } else {
        bytes.insert(at, bytes.substr(pick(bytes.size()), pick(20)));
      }
    }
    const HttpLimits small{.line = 40, .headers = 3, .body = 8};
    const std::size_t first = pick(bytes.size() + 1);
    const std::size_t second = first + pick(bytes.size() - first + 1);
    REQUIRE(describe(parse({bytes}, small)) ==
            describe(parse(
                {bytes.substr(0, first), bytes.substr(first, second - first), bytes.substr(second)},
                small)));
  }
}

TEST_CASE("the limits hold to the byte, whether the end of the line has come or not",
          "[http_parser]") {
  const HttpLimits limits{.line = 20, .headers = 2, .body = 4};
  // 20 bytes: the carriage return counts.
  CHECK(fault_of("GET /abcd HTTP/1.1\r\n\r\n", limits) == 0);
  CHECK(fault_of("GET /abcdef HTTP/1.1\n\n", limits) == 0);
  CHECK(fault_of("GET /abcdefg HTTP/1.1\n\n", limits) == 414);
  CHECK(fault_of("GET /abcdefghijklmno", limits) == 0);
  CHECK(fault_of("GET /abcdefghijklmnop", limits) == 414);
  const std::string get = "GET /a HTTP/1.1\r\n";
  CHECK(fault_of(get + "A: 45678901234567890\n", limits) == 0);
  CHECK(fault_of(get + "A: 456789012345678901\n", limits) == 431);
  CHECK(fault_of(get + "A: 456789012345678901", limits) == 431);
  CHECK(fault_of(get + "A: 1\r\nB: 2\r\n\r\n", limits) == 0);
  CHECK(fault_of(get + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n", limits) == 431);
  CHECK(fault_of("PUT /a HTTP/1.1\r\nContent-Length: 4\r\n\r\n1234") == 0);
  CHECK(parse({"PUT /a HTTP/1.1\nContent-Length: 4\n\n1234"}, limits).requests.size() == 1);
  CHECK(fault_of("PUT /a HTTP/1.1\nContent-Length: 5\n\n", limits) == 413);
  CHECK(fault_of("PUT /a HTTP/1.1\nContent-Length: 99999999999999999999999\n\n") == 413);
}

TEST_CASE("what is no request is refused with its status", "[http_parser]") {
  const std::string get = "GET /a/b HTTP/1.1\r\n";
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, int>>{
           {"GET /a/b\r\n", 400},
           {"GET\r\n", 400},
           {"GET  HTTP/1.1\r\n", 400},
           {" /a HTTP/1.1\r\n", 400},
           {"G\tT /a HTTP/1.1\r\n", 400},
           {"GET /a b HTTP/1.1\r\n", 400},
           {"GET /a\0 HTTP/1.1\r\n"s, 400},
           {"GET /a/b HTTQ/1.1\r\n", 400},
           {"GET /a/b HTTP/2.0\r\n", 505},
           {"GET /a/b HTTP/1.10\r\n", 505},
           {"\r\n\r\n\r\n\r\n\r\n", 400},
           {"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03\n", 400},  // TLS
           {get + "no colon\r\n", 400},
           {get + ": no name\r\n", 400},
           {get + "A : b\r\n", 400},
           {get + "A: b\r\n folded\r\n", 400},
           {get + "A: \0\r\n"s, 400},
           {get + "A: b\rc\r\n", 400},
           {get + "Content-Length:\r\n", 400},
           {get + "Content-Length: x\r\n", 400},
           {get + "Content-Length: -1\r\n", 400},
           {get + "Content-Length: +1\r\n", 400},
           {get + "Content-Length: 1 1\r\n", 400},
           {get + "Content-Length: 1, 1\r\n", 400},
           {get + "Content-Length: 1\r\nContent-Length: 2\r\n", 400},
           {get + "Transfer-Encoding: chunked\r\n", 501}}) {
    CAPTURE(bytes);
    const Parsed parsed = parse({bytes, "GET /a/b HTTP/1.1\r\n\r\n"});
    CHECK(parsed.status == status);
    CHECK(parsed.requests.empty());  // nothing comes after a fault
  }
  CHECK(fault_of(get + "Content-Length: 1\r\ncontent-length: 1\r\n\r\nx") == 0);
  CHECK(parse({"\r\n\r\n", get + "\r\n"}).requests.size() == 1);  // one newline too many
}

TEST_CASE("bytes that were handed out are not held any more", "[http_parser]") {
  HttpParser parser;
  Parsed parsed;
  for (int i = 0; i < 3; ++i) {
    parser.feed("PUT /a/b HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + std::string(999, 'x'));
    take_all(parser, parsed);
    CHECK(parser.held() == 999);
    parser.feed("y");
    take_all(parser, parsed);
    CHECK(parser.held() == 0);
  }
  CHECK(parsed.requests.size() == 3);
}

}  // namespace
}  // namespace hvdrun
