// Horovod's store over real sockets: the bytes of the answers, and clients that behave badly.
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/random.h"
#include "coordinator/horovod/horovod_desk.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct HorovodServerFixture {
  HorovodServerFixture() { start({}); }
  void start(HorovodServerLimits limits) {
    server.reset();
    UniqueFd listener = open_horovod_listener(port);
    server.emplace(
        io, std::move(listener), [this](const std::string& what) { trouble += what; },
        [this](HorovodStore::Gathering who) { gatherings.push_back(std::move(who.missing)); },
        limits);
  }
  void assign() { server->assign({{{"a", 2}}, 2}); }
  // Runs the server until this is so; a test that waits longer than anything here takes has failed.
  bool run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io.run_for(1ms);
    }
    return true;
  }
  UniqueFd connect() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
    return fd;
  }
  static void send(const UniqueFd& fd, const std::string& bytes) {
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // The bytes that have come; "closed" or "reset" at its end when that came too.
  static std::string take(const UniqueFd& fd) {
    std::string all;
    char buffer[65536];
    ssize_t got = 0;
    while ((got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0)
      all.append(buffer, static_cast<std::size_t>(got));
    return got == 0 ? all + "closed" : errno == EAGAIN ? all : all + "reset";
  }
  // Everything until the server closes.
  std::string take_all(const UniqueFd& fd) {
    std::string all;
    run_until([&] { return (all += take(fd)).ends_with("closed") || all.ends_with("reset"); });
    return all;
  }
  std::string ask(const std::string& bytes) {
    const UniqueFd fd = connect();
    send(fd, bytes);
    return take_all(fd);
  }
  std::string put(const std::string& target, const std::string& value) {
    return ask("PUT " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
               std::to_string(value.size()) + "\r\n\r\n" + value);
  }
  std::string get(const std::string& target) {
    return ask("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
  }
  static std::string closing(const std::string& status, const std::string& value = {}) {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(value.size()) +
           "\r\nConnection: close\r\n\r\n" + value + "closed";
  }

  boost::asio::io_context io{1};
  std::uint16_t port = 0;
  std::string trouble;
  std::optional<HorovodDesk> server;
  std::vector<std::vector<std::uint32_t>> gatherings;  // the missing of each
};

TEST_CASE_METHOD(HorovodServerFixture, "who has come to meet is told once for each change",
                 "[horovod_server]") {
  assign();
  put("/global/rank_1", "host");
  put("/global/rank_1", "host");
  put("/global/1", "address");
  put("/global/rank_0", "host");
  using List = std::vector<std::vector<std::uint32_t>>;
  CHECK(gatherings == List{{0}, {}});
}

TEST_CASE_METHOD(HorovodServerFixture, "each request is answered on a connection of its own",
                 "[horovod_server]") {
  assign();
  CHECK(get("/global/0") == closing("404 Not Found"));
  CHECK(put("/global/0", std::string("a\0\r\n", 4)) == closing("200 OK"));
  CHECK(get("/global/0") == closing("200 OK", std::string("a\0\r\n", 4)));
  CHECK(put("/global/1", "") == closing("200 OK"));
  CHECK(get("/global/1") == closing("200 OK"));
  CHECK(ask("DELETE /global/0 HTTP/1.1\r\n\r\n") == closing("200 OK"));
  CHECK(get("/rank_and_size/a:1") == closing("200 OK", "1,2,1,2,0,1"));
  CHECK(ask("PUT /global/0 HTTP/1.1\r\n\r\n") == closing("400 Bad Request"));
  CHECK(ask("HEAD /global/0 HTTP/1.1\r\n\r\n") == closing("501 Not Implemented"));
  CHECK(ask("GET /etc/passwd/x HTTP/1.1\r\n\r\n") == closing("400 Bad Request"));
  CHECK(server->open_connections() == 0);
  CHECK(trouble.empty());
}

TEST_CASE_METHOD(HorovodServerFixture, "who waits for a peer's address has it when it comes",
                 "[horovod_server]") {
  const std::string end = " HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
  HorovodServerLimits limits;
  limits.hold = 10s;
  start(limits);
  assign();
  const UniqueFd waits = connect();
  const UniqueFd also = connect();
  UniqueFd goes = connect();
  for (const UniqueFd* fd : std::initializer_list<const UniqueFd*>{&waits, &also, &goes})
    send(*fd, "GET /global/1" + end);
  // Other keys are asked for once, and a member goes on without them.
  CHECK(get("/global/rank_1") == closing("404 Not Found"));
  REQUIRE(run_until([&] { return server->open_connections() == 3; }));
  goes.reset();
  REQUIRE(run_until([&] { return server->open_connections() == 2; }));
  CHECK(put("/global/0", "zero") == closing("200 OK"));
  CHECK(take(waits).empty());
  CHECK(put("/global/1", "one") == closing("200 OK"));
  for (const UniqueFd* fd : {&waits, &also}) CHECK(take_all(*fd) == closing("200 OK", "one"));
  CHECK(server->open_connections() == 0);
  // Not longer than is good for a client's own time-out.
  limits.hold = 20ms;
  start(limits);
  assign();
  CHECK(get("/global/1") == closing("404 Not Found"));
}

TEST_CASE_METHOD(HorovodServerFixture, "values larger than all buffers arrive whole",
                 "[horovod_server]") {
  const std::string value = random_bytes(limits::kMaxStoreValue);
  const std::string head =
      "PUT /s/k HTTP/1.1\r\nContent-Length: " + std::to_string(value.size()) + "\r\n\r\n";
  const UniqueFd fd = connect();
  const std::string bytes = head + value;
  std::size_t sent = 0;
  REQUIRE(run_until([&] {
    const ssize_t done =
        ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) sent += static_cast<std::size_t>(done);
    return sent == bytes.size();
  }));
  CHECK(take_all(fd) == closing("200 OK"));
  const std::string answer = get("/s/k");
  CHECK((answer == closing("200 OK", value)));  // without printing 8 MiB
}

TEST_CASE_METHOD(HorovodServerFixture, "a connection is kept when the request asks for it",
                 "[horovod_server]") {
  const UniqueFd fd = connect();
  const std::string keep = "Connection: keep-alive\r\n";
  const std::string kept = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + keep + "\r\n";
  for (int i = 0; i < 3; ++i) {
    send(fd, "PUT /s/k HTTP/1.1\r\n" + keep + "Content-Length: 1\r\n\r\nx");
    std::string answer;
    REQUIRE(run_until([&] { return (answer += take(fd)).size() >= kept.size(); }));
    CHECK(answer == kept);
  }
  // Several at once, and the last one does not ask.
  const std::string get = "GET /s/k HTTP/1.1\r\n";
  send(fd, get + keep + "\r\n" + get + keep + "\r\n" + get + "\r\n");
  const std::string one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + keep + "\r\nx";
  CHECK(take_all(fd) == one + one + closing("200 OK", "x"));
}

TEST_CASE_METHOD(HorovodServerFixture, "more requests at once than one turn serves are all served",
                 "[horovod_server]") {
  const UniqueFd fd = connect();
  std::string many;
  for (int i = 0; i < 500; ++i) many += "GET /s/k HTTP/1.1\r\nConnection: keep-alive\r\n\r\n";
  send(fd, many + "GET /s/last HTTP/1.1\r\n\r\n");
  const std::string all = take_all(fd);
  std::size_t answers = 0;
  for (std::size_t at = 0; (at = all.find("404 Not Found", at)) != std::string::npos; ++at)
    ++answers;
  CHECK(answers == 501);
  CHECK(all.ends_with("closed"));
}

TEST_CASE_METHOD(HorovodServerFixture,
                 "who says nothing, or half a request, delays nobody and goes",
                 "[horovod_server]") {
  start({.idle = 200ms, .request = 100ms});
  const UniqueFd silent = connect();
  const UniqueFd half_head = connect();
  send(half_head, "GET /s/k HT");
  const UniqueFd half_body = connect();
  send(half_body, "PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\n12345");
  CHECK(put("/s/other", "x") == closing("200 OK"));
  CHECK(get("/s/other") == closing("200 OK", "x"));
  CHECK(take_all(half_head) == closing("408 Request Timeout"));
  CHECK(take_all(half_body) == closing("408 Request Timeout"));
  CHECK(take_all(silent) == "closed");
  CHECK(get("/s/k") == closing("404 Not Found"));
  CHECK(run_until([&] { return server->open_connections() == 0; }));
}

TEST_CASE_METHOD(HorovodServerFixture, "who vanishes in the middle leaves nothing behind",
                 "[horovod_server]") {
  assign();
  UniqueFd fds[] = {connect(), connect(), connect()};
  send(fds[1], "PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\n12345");
  send(fds[2], "GET /s/k HTTP/1.1\r\n");
  REQUIRE(run_until([&] { return server->open_connections() == 3; }));
  const linger reset{1, 0};  // close sends RST
  ::setsockopt(fds[1].get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  for (UniqueFd& fd : fds) fd.reset();
  CHECK(run_until([&] { return server->open_connections() == 0; }));
  CHECK(get("/s/k") == closing("404 Not Found"));
}

TEST_CASE_METHOD(HorovodServerFixture, "a refused request is answered before the connection goes",
                 "[horovod_server]") {
  const UniqueFd fd = connect();
  // The body is on its way while the answer is: a plain close would reset the connection.
  send(fd, "PUT /s/k HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + std::string(100'000, 'x'));
  std::string answer;
  REQUIRE(run_until([&] { return (answer += take(fd)).ends_with("closed"); }));
  CHECK(answer == closing("413 Content Too Large"));
  send(fd, std::string(100'000, 'x'));
  CHECK(server->open_connections() == 1);
  CHECK(get("/s/k") == closing("404 Not Found"));
}

TEST_CASE_METHOD(HorovodServerFixture, "a get of rank_and_size waits as long as it takes",
                 "[horovod_server]") {
  start({.idle = 20ms, .request = 20ms, .response = 20ms});
  const std::string get = " HTTP/1.1\r\n\r\n";
  const UniqueFd waits = connect();
  UniqueFd vanishes = connect();
  const UniqueFd silent = connect();
  send(waits, "GET /rank_and_size/a:0" + get);
  send(vanishes, "GET /rank_and_size/a:1" + get);
  REQUIRE(run_until([&] { return server->open_connections() == 3; }));
  vanishes.reset();
  // Well past every deadline, as the other connection shows.
  CHECK(take_all(silent) == "closed");
  REQUIRE(run_until([&] { return server->open_connections() == 1; }));
  io.run_for(100ms);
  CHECK(take(waits).empty());
  assign();
  CHECK(take_all(waits) == closing("200 OK", "0,2,0,2,0,1"));
}

TEST_CASE_METHOD(HorovodServerFixture, "beyond the limit connections wait, and are all answered",
                 "[horovod_server]") {
  start({.connections = 4});
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 12; ++i) {
    fds.push_back(connect());
    send(fds.back(), "GET /s/k HT");
  }
  REQUIRE(run_until([&] { return server->open_connections() == 4; }));
  io.run_for(20ms);
  CHECK(server->open_connections() == 4);
  for (const UniqueFd& fd : fds) send(fd, "TP/1.1\r\n\r\n");
  for (const UniqueFd& fd : fds) CHECK(take_all(fd) == closing("404 Not Found"));
  CHECK(server->open_connections() == 0);
}

TEST_CASE_METHOD(HorovodServerFixture,
                 "hundreds that connect while nobody accepts are all answered",
                 "[horovod_server]") {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 300; ++i) {
    fds.push_back(connect());  // a short backlog would drop it, to be tried again after a second
    send(fds.back(), "GET /s/k HTTP/1.1\r\n\r\n");
  }
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  for (const UniqueFd& fd : fds) REQUIRE(take_all(fd) == closing("404 Not Found"));
  CHECK(server->open_connections() == 0);
}

TEST_CASE_METHOD(HorovodServerFixture, "unfinished requests hold a bounded number of bytes",
                 "[horovod_server]") {
  start({.held = 20'000});
  const UniqueFd first = connect();
  const UniqueFd second = connect();
  const std::string put = "PUT /s/k HTTP/1.1\r\nContent-Length: 15000\r\n\r\n";
  send(first, put + std::string(14'000, 'x'));
  REQUIRE(run_until([&] { return server->open_connections() == 2; }));
  send(second, put + std::string(14'000, 'x'));
  std::string answer;
  REQUIRE(run_until([&] { return (answer += take(second)).ends_with("closed"); }));
  CHECK(answer == closing("503 Service Unavailable"));
  send(first, std::string(1'000, 'x'));
  CHECK(take_all(first) == closing("200 OK"));
}

TEST_CASE_METHOD(HorovodServerFixture, "out of descriptors it waits, says so once, and goes on",
                 "[horovod_server]") {
  const UniqueFd first = connect();
  const UniqueFd second = connect();
  for (const UniqueFd* fd : {&first, &second}) send(*fd, "GET /s/k HTTP/1.1\r\n\r\n");
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  const rlimit none{static_cast<rlim_t>(::dup(0)), old.rlim_max};  // the lowest free one, and up
  ::close(static_cast<int>(none.rlim_cur));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool told = run_until([&] { return !trouble.empty(); });
  io.run_for(250ms);  // it tries again, and fails again
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK(told);
  CHECK(trouble.find("Too many open files; the limit is ") == trouble.rfind("Too many open files"));
  CHECK(trouble.ends_with("; trying again"));
  CHECK(take_all(first) == closing("404 Not Found"));
  CHECK(take_all(second) == closing("404 Not Found"));
}

TEST_CASE_METHOD(HorovodServerFixture, "the port goes with the server, and open connections too",
                 "[horovod_server]") {
  const UniqueFd open = connect();
  send(open, "GET /s/k HT");
  REQUIRE(run_until([&] { return server->open_connections() == 1; }));
  server.reset();
  io.run();  // nothing is left to wait for
  io.restart();
  CHECK(take(open) == "closed");
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  CHECK(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0);
}

}  // namespace
}  // namespace hvdrun
