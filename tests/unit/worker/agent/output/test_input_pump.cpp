#include <chrono>
#include <fcntl.h>
#include <map>
#include <unistd.h>

#include "common/net/unix_stream.h"
#include "tests/catch.h"
#include "worker/agent/output/input_pump.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

// A pump with a viewer that counts credit, and the stdin of rank 3 to read from.
struct InputFixture {
  InputFixture() {
    auto [a, b] = make_socket_pair();
    agent_side = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(a)));
    viewer_side = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(b)));
    agent_side->start([](const Frame&) {}, [](std::error_code) {});
    viewer_side->start(
        [this](const Frame& frame) {
          InputCredit message;
          if (frame.type == MessageType::input_closed) ++closed;
          if (frame.type != MessageType::input_credit) return;
          REQUIRE_FALSE(decode(frame.payload, message));
          credit += message.bytes;
        },
        [](std::error_code) {});
    pump.set_viewer(agent_side);
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    reader.reset(fds[0]);
    pump.add(3, UniqueFd(fds[1]), 100'000);
    turn();
  }
  void turn() {
    io.run_for(20ms);
    io.restart();
  }
  std::string read_all() {
    std::string text;
    char buffer[65536];
    for (;;) {
      const ssize_t got = ::read(reader.get(), buffer, sizeof buffer);
      if (got < 0) return text;
      if (got == 0) return text + "<end>";
      text.append(buffer, static_cast<std::size_t>(got));
      turn();
    }
  }

  boost::asio::io_context io{1};
  std::shared_ptr<FrameChannel> agent_side;
  std::shared_ptr<FrameChannel> viewer_side;
  InputPump pump{io};
  UniqueFd reader;
  std::size_t credit = 0;
  int closed = 0;
};

TEST_CASE_METHOD(InputFixture, "input arrives whole, then its end", "[input]") {
  CHECK(credit == 100'000);
  const std::string text(90'000, 'x');  // more than a pipe holds
  pump.input({3, false, text});
  pump.input({3, true, "y"});
  turn();
  CHECK(credit < 190'000);
  CHECK(read_all() == text + "y<end>");
  CHECK(credit == 190'001);
  CHECK(closed == 1);
}

TEST_CASE_METHOD(InputFixture, "who reads no more is told of", "[input]") {
  reader.reset();
  turn();
  CHECK(closed == 1);
  pump.input({3, false, "nobody reads this"});
  turn();
  CHECK(closed == 1);
}

TEST_CASE_METHOD(InputFixture, "more than the credit ends it", "[input]") {
  pump.input({3, false, std::string(100'001, 'x')});
  turn();
  CHECK(closed == 1);
  CHECK(read_all() == "<end>");
}

TEST_CASE_METHOD(InputFixture, "without a viewer the input ends", "[input]") {
  pump.set_viewer(nullptr);
  turn();
  CHECK(read_all() == "<end>");
}

}  // namespace
}  // namespace hvdrun
