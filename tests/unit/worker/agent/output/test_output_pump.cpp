#include <chrono>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/net/unix_stream.h"
#include "tests/catch.h"
#include "worker/agent/output/output_pump.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

// A pump with a viewer that records, and one rank's stdout to write to.
struct PumpFixture {
  // Nothing is sent for want of a line's end while a test runs.
  PumpFixture()
      : pump(
            io, [this] { all_closed = true; }, 1h) {
    auto [a, b] = make_socket_pair();
    agent_side = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(a)));
    viewer_side = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(b)));
    agent_side->start(
        [this](const Frame& frame) {
          Credit credit;
          REQUIRE_FALSE(decode(frame.payload, credit));
          pump.credit(credit);
        },
        [](std::error_code) {});
    viewer_side->start(
        [this](const Frame& frame) {
          if (frame.type == MessageType::output_closed) ++closed;
          if (frame.type != MessageType::output) return;
          Output output;
          REQUIRE_FALSE(decode(frame.payload, output));
          text += output.bytes;
          last_partial = output.partial;
        },
        [](std::error_code) {});
    pump.set_viewer(agent_side);
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    writer.reset(fds[1]);
    ::fcntl(writer.get(), F_SETFL, O_NONBLOCK);
    pump.add(3, OutputStream::out, UniqueFd(fds[0]));
  }
  // As much as goes in until nothing moves any more.
  std::size_t flood() {
    const std::string line(1023, 'x');
    std::size_t total = 0;
    for (int idle = 0; idle < 20;) {
      const std::string bytes = line + "\n";
      const ssize_t sent = ::write(writer.get(), bytes.data(), bytes.size());
      if (sent > 0) total += static_cast<std::size_t>(sent);
      idle = sent > 0 ? 0 : idle + 1;
      io.run_for(sent > 0 ? 0ms : 5ms);
      io.restart();
    }
    return total;
  }

  boost::asio::io_context io{1};
  bool all_closed = false;
  std::shared_ptr<FrameChannel> agent_side;
  std::shared_ptr<FrameChannel> viewer_side;
  OutputPump pump;
  UniqueFd writer;
  std::string text;
  bool last_partial = false;
  int closed = 0;
};

TEST_CASE("what many ranks print at once does not overfill a connection that stands still",
          "[output]") {
  constexpr std::size_t kSources = 260;
  const std::string beginning(48U << 10, 'x');
  static_assert(kSources * (48U << 10) > limits::kMaxOutputQueue + (2U << 20));
  boost::asio::io_context io{1};
  auto [a, nobody_reads] = make_socket_pair();
  const auto viewer = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(a)));
  viewer->start([](const Frame&) {}, [](std::error_code) {});
  OutputPump pump(
      io, [] {}, 1h);
  pump.set_viewer(viewer);
  std::vector<UniqueFd> writers;
  for (std::uint32_t rank = 0; rank < kSources; ++rank) {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    writers.emplace_back(fds[1]);
    REQUIRE(::write(fds[1], beginning.data(), beginning.size()) ==
            static_cast<ssize_t>(beginning.size()));
    pump.add(rank, OutputStream::out, UniqueFd(fds[0]));
  }
  while (io.poll() > 0) {
  }
  CHECK(viewer->queued() == 0);  // unfinished lines stay here
  for (const UniqueFd& writer : writers) REQUIRE(::write(writer.get(), "\n", 1) == 1);
  while (io.poll() > 0) {
  }
  CHECK(viewer->queued() > limits::kMaxOutputQueue);
  CHECK(viewer->queued() < limits::kMaxOutputQueue + (1U << 20));
}

TEST_CASE_METHOD(PumpFixture, "what a rank said last is known before its end", "[output]") {
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  const UniqueFd err(fds[1]);
  std::string seen;
  pump.on_stderr = [&](std::uint32_t rank, std::string_view lines) {
    CHECK(rank == 3);
    seen += lines;
  };
  pump.add(3, OutputStream::err, UniqueFd(fds[0]));
  REQUIRE(::write(err.get(), "last words\nand", 14) == 14);
  pump.catch_up(3);  // the loop has not run
  CHECK(seen == "last words\n");
  pump.catch_up(3);
  pump.catch_up(4);  // there is none
  REQUIRE(::write(err.get(), " more\n", 6) == 6);
  io.run_for(20ms);
  CHECK(seen == "last words\nand more\n");
  CHECK(text == seen);
}

TEST_CASE_METHOD(PumpFixture, "lines arrive whole, the rest at the end", "[output]") {
  REQUIRE(::write(writer.get(), "one\ntw", 6) == 6);
  io.run_for(20ms);
  CHECK(text == "one\n");
  REQUIRE(::write(writer.get(), "o\nrest", 6) == 6);
  io.run_for(20ms);
  CHECK(text == "one\ntwo\n");
  writer.reset();
  io.run_for(20ms);
  CHECK(text == "one\ntwo\nrest");
  CHECK(last_partial);
  CHECK(closed == 1);
  CHECK(all_closed);
}

// The viewer knows of every rank whether somebody may answer it, and who else has something to
// show.
TEST_CASE_METHOD(PumpFixture, "a line that does not go on is sent unfinished", "[output]") {
  OutputPump quick(
      io, [] {}, 1ms);
  quick.set_viewer(agent_side);
  std::string err_lines;
  quick.on_stderr = [&](std::uint32_t, std::string_view lines) { err_lines += lines; };
  int fds[2];
  const auto wait_for = [&](const std::string& expected) {
    for (int i = 0; text != expected && i < 1000; ++i) {
      io.run_for(20ms);
      io.restart();
    }
    CHECK(text == expected);
  };
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  const UniqueFd asking(fds[1]);
  quick.add(4, OutputStream::err, UniqueFd(fds[0]));
  REQUIRE(::write(asking.get(), "name? ", 6) == 6);
  wait_for("name? ");
  CHECK(last_partial);
  CHECK(err_lines.empty());
  REQUIRE(::write(asking.get(), "none\n", 5) == 5);
  wait_for("name? none\n");
  CHECK_FALSE(last_partial);
  CHECK(err_lines == "name? none\n");  // whole, for who looks for words in it
}

TEST_CASE_METHOD(PumpFixture, "an unfinished line waits for credit too", "[output]") {
  OutputPump quick(
      io, [] {}, 1ms);
  quick.set_viewer(agent_side);
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  const UniqueFd writing(fds[1]);
  quick.add(4, OutputStream::out, UniqueFd(fds[0]));
  quick.credit({4, 0});
  const std::string line = std::string(limits::kOutputCredit - 1, 'x') + "\n";
  std::thread flooding([&] {
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t sent = ::write(writing.get(), line.data() + done, line.size() - done);
      if (sent > 0) done += static_cast<std::size_t>(sent);
    }
  });
  for (int i = 0; text.size() < line.size() && i < 1000; ++i) {
    io.run_for(20ms);
    io.restart();
  }
  flooding.join();
  REQUIRE(text.size() == line.size());  // the credit is used up
  REQUIRE(::write(writing.get(), "dots", 4) == 4);
  io.run_for(20ms);
  io.restart();
  CHECK(text.size() == line.size());
  quick.credit({4, 1});
  for (int i = 0; text.size() < line.size() + 4 && i < 1000; ++i) {
    io.run_for(20ms);
    io.restart();
  }
  CHECK(text.ends_with("\ndots"));
}

TEST_CASE_METHOD(PumpFixture, "a rank without credit waits in its own pipe", "[output]") {
  flood();
  // One read may go over it, and a line end may keep some back.
  CHECK(text.size() <= limits::kOutputCredit + 32768);
  CHECK(text.size() >= limits::kOutputCredit - 32768);
  const std::size_t before = text.size();
  viewer_side->send(Credit{3, static_cast<std::uint32_t>(before)});
  flood();
  CHECK(text.size() > before + limits::kOutputCredit / 2);
}

// The writing end is open all the same.
TEST_CASE_METHOD(PumpFixture, "when nobody is left to write, what is there comes, and the end",
                 "[output]") {
  std::vector<std::pair<std::uint32_t, OutputStream>> held;
  const auto finish = [&] {
    pump.finish([&](std::uint32_t rank, OutputStream stream, int fd) {
      held.emplace_back(rank, stream);
      CHECK(::fcntl(fd, F_GETFD) >= 0);
    });
  };
  REQUIRE(::write(writer.get(), "whole\nrest", 10) == 10);
  std::string expected = "whole\nrest";
  bool goes_on = false;
  SECTION("at once") { finish(); }
  SECTION("though whoever holds it goes on writing") {
    goes_on = true;
    REQUIRE(::fcntl(writer.get(), F_SETFL, O_NONBLOCK) == 0);
    finish();
    REQUIRE(::write(writer.get(), "of a stranger\n", 14) == 14);
  }
  SECTION("after a while") {
    io.run_for(5ms);
    io.restart();
    finish();
  }
  SECTION("as the viewer gives credit") {
    const std::size_t written = flood();
    finish();
    finish();  // as often as anybody likes
    io.run_for(5ms);
    io.restart();
    CHECK_FALSE(all_closed);
    std::size_t credited = 0;
    // Until the viewer has it all; the pump is done before.
    for (int i = 0; closed == 0 && i < 1000; ++i) {
      if (text.size() > credited)
        viewer_side->send(Credit{3, static_cast<std::uint32_t>(text.size() - credited)});
      credited = text.size();
      io.run_for(5ms);
      io.restart();
    }
    CHECK(text.size() == expected.size() + written);
    expected = text;
  }
  // Always more than is read at once.
  const std::string much(60'000, 'x');
  for (int i = 0; closed == 0 && i < 1000; ++i) {
    if (goes_on && held.empty()) static_cast<void>(::write(writer.get(), much.data(), much.size()));
    io.run_one_for(5ms);
    io.restart();
  }
  CHECK(text == expected);
  CHECK(closed == 1);
  CHECK(all_closed);
  CHECK(held == std::vector{std::pair(std::uint32_t{3}, OutputStream::out)});
}

TEST_CASE_METHOD(PumpFixture, "a pipe that has ended is not said to be held", "[output]") {
  REQUIRE(::write(writer.get(), "rest", 4) == 4);
  writer.reset();
  pump.finish([](std::uint32_t, OutputStream, int) { FAIL("nobody holds it"); });
  for (int i = 0; closed == 0 && i < 1000; ++i) {
    io.run_for(5ms);
    io.restart();
  }
  CHECK(text == "rest");
  CHECK(all_closed);
}

TEST_CASE_METHOD(PumpFixture, "without a viewer nobody blocks", "[output]") {
  flood();
  pump.set_viewer(nullptr);
  const std::size_t shown = text.size();
  std::size_t more = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string bytes(4096, 'y');
    const ssize_t sent = ::write(writer.get(), bytes.data(), bytes.size());
    if (sent > 0) more += static_cast<std::size_t>(sent);
    io.run_for(1ms);
    io.restart();
  }
  CHECK(more > 400'000);
  CHECK(text.size() <= shown + 32768);
}

}  // namespace
}  // namespace hvdrun
