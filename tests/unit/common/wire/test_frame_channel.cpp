#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/net/unix_stream.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct Pair {
  Pair() {
    auto [a, b] = make_socket_pair();
    left = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(a)));
    right_fd = std::move(b);
  }
  void open_right() {
    right = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(right_fd)));
  }
  boost::asio::io_context io{1};
  std::shared_ptr<FrameChannel> left;
  std::shared_ptr<FrameChannel> right;
  UniqueFd right_fd;
};

TEST_CASE("frames arrive in order, and the end after them", "[channel]") {
  Pair pair;
  pair.open_right();
  std::vector<std::string> texts;
  std::error_code end;
  pair.left->start([](const Frame&) {}, [](std::error_code) {});
  pair.right->start(
      [&](const Frame& frame) {
        Log log;
        REQUIRE_FALSE(decode(frame.payload, log));
        texts.push_back(log.text);
      },
      [&](std::error_code ec) { end = ec; });
  for (int i = 0; i < 100; ++i) pair.left->send(Log{LogLevel::info, std::string(5000, 'x')});
  bool drained = false;
  pair.left->close_when_sent([&] { drained = true; });
  pair.left->send(Log{LogLevel::info, "after the end"});
  pair.io.run_for(5s);
  CHECK(texts.size() == 100);
  CHECK(drained);
  CHECK(end == Errc::closed);
}

TEST_CASE("frames with a shared rest keep their place among the others", "[channel]") {
  Pair pair;
  pair.open_right();
  std::vector<std::string> texts;
  pair.left->start([](const Frame&) {}, [](std::error_code) {});
  pair.right->start(
      [&](const Frame& frame) {
        Log log;
        REQUIRE_FALSE(decode(frame.payload, log));
        texts.push_back(log.text);
      },
      [](std::error_code) {});
  const std::string whole = encode_frame(Log{LogLevel::info, "shared"});
  const auto rest = std::make_shared<const std::string>(whole.substr(13));
  for (int i = 0; i < 3; ++i) {
    pair.left->send(Log{LogLevel::info, "own"});
    pair.left->send_shared(whole.substr(0, 13), rest);
    pair.left->send_shared(whole.substr(0, 13), rest);
  }
  CHECK(pair.left->queued() > 0);
  pair.io.run_for(200ms);
  CHECK(pair.left->queued() == 0);
  CHECK(rest.use_count() == 1);
  const std::vector<std::string> three{"own", "shared", "shared"};
  std::vector<std::string> all;
  for (int i = 0; i < 3; ++i) all.insert(all.end(), three.begin(), three.end());
  CHECK(texts == all);
}

TEST_CASE("a peer that does not read ends the channel, not the memory", "[channel]") {
  Pair pair;
  std::error_code end;
  pair.left->start([](const Frame&) {}, [&](std::error_code ec) { end = ec; });
  const std::string chunk(1U << 20, 'x');
  for (std::size_t i = 0; i < 2 * limits::kMaxWriteQueue / chunk.size(); ++i)
    pair.left->send(Log{LogLevel::info, chunk});
  CHECK(pair.left->queued() <= limits::kMaxWriteQueue);
  pair.io.run_for(5s);
  CHECK(end == Errc::queue_overflow);
}

TEST_CASE("garbage ends the channel with its fault", "[channel]") {
  Pair pair;
  std::error_code end;
  pair.left->start([](const Frame&) { FAIL("no frame was sent"); },
                   [&](std::error_code ec) { end = ec; });
  REQUIRE(::write(pair.right_fd.get(), "GET / HTTP/1.1\r\n\r\n", 18) == 18);
  pair.io.run_for(5s);
  CHECK((end == Errc::frame_too_large || end == Errc::malformed));
}

TEST_CASE("a descriptor travels with its frame", "[channel]") {
  Pair pair;
  pair.left->start([](const Frame&) {}, [](std::error_code) {});
  int pipe_fds[2];
  REQUIRE(::pipe2(pipe_fds, O_CLOEXEC) == 0);
  const UniqueFd read_end(pipe_fds[0]);
  UniqueFd write_end(pipe_fds[1]);
  pair.left->send(Heartbeat{});
  pair.left->send_with_fd(encode_frame(Segment{1, Errc::ok, 10}), std::move(write_end));
  pair.left->send(Heartbeat{});
  pair.io.run_for(50ms);

  int received = -1;
  std::string bytes;
  for (;;) {
    char buffer[256];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec iov{buffer, sizeof buffer};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(pair.right_fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(got));
    if (cmsghdr* const header = CMSG_FIRSTHDR(&message))
      std::memcpy(&received, CMSG_DATA(header), sizeof received);
  }
  REQUIRE(received >= 0);
  const UniqueFd copy(received);
  CHECK(::write(copy.get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(read_end.get(), &byte, 1) == 1);
  CHECK(bytes.size() == 3 * kFrameHeaderBytes + encode(Segment{}).size());
}

TEST_CASE("callbacks may be exchanged, and the channel closed, from a callback", "[channel]") {
  Pair pair;
  pair.open_right();
  int first = 0;
  int second = 0;
  pair.left->start([](const Frame&) {}, [](std::error_code) {});
  pair.right->start(
      [&](const Frame&) {
        ++first;
        pair.right->set_callbacks(
            [&](const Frame&) {
              if (++second == 2) pair.right->close();
            },
            [](std::error_code) { FAIL("close() calls nobody"); });
      },
      [](std::error_code) {});
  for (int i = 0; i < 10; ++i) pair.left->send(Heartbeat{});
  pair.io.run_for(200ms);
  CHECK(first == 1);
  CHECK(second == 2);
}

}  // namespace
}  // namespace hvdrun
