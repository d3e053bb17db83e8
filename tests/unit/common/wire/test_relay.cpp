// Two streams over one channel: in order, bounded, and none in the way of the other.
#include <array>
#include <optional>

#include <boost/asio/post.hpp>

#include "common/base/error.h"
#include "common/net/unix_stream.h"
#include "common/wire/messages.h"
#include "common/wire/relay.h"
#include "common/wire/relay_mux.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using What = RelayMux::Event::What;

struct TwoSides {
  // All that `from` has for the channel goes to `to`, in pieces of `split` bytes.
  std::vector<RelayMux::Event> carry(RelayMux& from, RelayMux& to, std::size_t split = 7) {
    std::vector<RelayMux::Event> events;
    std::string bytes;
    for (std::string frame = from.next(); !frame.empty(); frame = from.next()) bytes += frame;
    for (std::size_t at = 0; at < bytes.size(); at += split)
      fault = to.feed(std::string_view(bytes).substr(at, split), events);
    return events;
  }
  // As much as may be sent, until nothing more may.
  std::size_t fill(RelayStream stream) {
    std::size_t sent = 0;
    for (std::size_t size = agent.may_send(stream); size > 0; size = agent.may_send(stream)) {
      agent.send(stream, std::string(size, 'x'));
      sent += size;
      carry(agent, driver, 100'000);
    }
    return sent;
  }
  RelayMux agent;
  RelayMux driver;
  std::error_code fault;
};

TEST_CASE_METHOD(TwoSides, "streams come out as they went in", "[relay]") {
  CHECK(agent.may_send(RelayStream::output) == 0);
  agent.open(RelayStream::output);
  agent.send(RelayStream::output, "first");
  CHECK(agent.may_send(RelayStream::output) == 0);  // one piece at a time
  agent.open(RelayStream::control);
  agent.send(RelayStream::control, "second");
  agent.end(RelayStream::control);
  const auto events = carry(agent, driver);
  REQUIRE(events.size() == 5);
  // Control first, whenever it came.
  CHECK(events[0].what == What::opened);
  CHECK(events[0].stream == RelayStream::control);
  CHECK(events[1].bytes == "second");
  CHECK(events[2].what == What::ended);
  CHECK(events[3].stream == RelayStream::output);
  CHECK(events[4].bytes == "first");
  driver.send(RelayStream::control, "back");
  CHECK(carry(driver, agent).front().bytes == "back");
  CHECK_FALSE(fault);
}

TEST_CASE_METHOD(TwoSides, "a stream that is not read stops, and no other", "[relay]") {
  agent.open(RelayStream::output);
  agent.open(RelayStream::control);
  carry(agent, driver);
  CHECK(fill(RelayStream::output) == RelayMux::kCredit);
  CHECK(fill(RelayStream::control) == RelayMux::kCredit);
  driver.taken(RelayStream::control, RelayMux::kCredit / 2);
  carry(driver, agent);
  CHECK(agent.may_send(RelayStream::output) == 0);
  CHECK(fill(RelayStream::control) == RelayMux::kCredit / 2);
  CHECK_FALSE(fault);
}

TEST_CASE("bytes that make no sense end the channel", "[relay]") {
  RelayMux mux;
  std::vector<RelayMux::Event> events;
  const std::string open = encode_frame(RelayOpen{RelayStream::output});
  const std::string bad = GENERATE_REF(
      encode_frame(RelayData{RelayStream::output, "not open"}), open + open,
      open + encode_frame(RelayData{RelayStream::output, std::string(RelayMux::kCredit + 1, 'x')}),
      open + encode_frame(RelayCredit{RelayStream::output, 1}),
      open + encode_frame(RelayEnd{RelayStream::output}) +
          encode_frame(RelayEnd{RelayStream::output}),
      open + encode_frame(RelayEnd{RelayStream::output}) +
          encode_frame(RelayData{RelayStream::output, "late"}),
      encode_frame(RelayOpen{static_cast<RelayStream>(2)}), encode_frame(EndJob{}),
      std::string(100, '\xff'));
  CHECK(mux.feed(bad, events));
  CHECK(mux.feed(open, events));  // and it stays so
}

// Sockets on both sides, the channel is this test's.
TEST_CASE("sockets are carried, with their ends", "[relay]") {
  namespace asio = boost::asio;
  asio::io_context io(1);
  std::unique_ptr<Relay> near;
  std::unique_ptr<Relay> far;
  const auto to = [&io](std::unique_ptr<Relay>& other) {
    return [&io, &other](const std::string& bytes, const std::function<void()>& done) {
      asio::post(io, [&other, bytes, done] {
        other->feed(bytes);
        done();
      });
    };
  };
  std::unique_ptr<ByteStream> server;
  const auto no_fault = [](std::error_code ec) { FAIL(ec.message()); };
  near = std::make_unique<Relay>(io, Relay::Callbacks{to(far), {}, no_fault});
  far = std::make_unique<Relay>(io, Relay::Callbacks{to(near),
                                                     [&](RelayStream stream) {
                                                       auto [one, two] = make_socket_pair();
                                                       server =
                                                           make_unix_stream(io, std::move(one));
                                                       far->attach(stream, std::move(two));
                                                     },
                                                     no_fault});
  const auto client = make_unix_stream(io, near->open(RelayStream::output));
  const std::string sent(3'000'000, 'y');
  client->async_write(asio::buffer(sent), [&](const auto& ec, std::size_t) {
    CHECK_FALSE(ec);
    client->shutdown_send();
  });
  std::string got;
  std::array<char, 65536> buffer{};
  bool ended = false;
  std::function<void()> read = [&] {
    server->async_read_some(asio::buffer(buffer), [&](const auto& ec, std::size_t size) {
      got.append(buffer.data(), size);
      ended = ec == asio::error::eof;
      if (!ec) read();
    });
  };
  const auto run_until = [&](const auto& done) {
    for (int i = 0; i < 1000 && !done(); ++i) io.run_for(std::chrono::milliseconds(10));
    REQUIRE(done());
  };
  run_until([&] { return server != nullptr; });
  // Nobody reads yet: what is on its way is bounded, so the writer waits.
  io.run_for(std::chrono::milliseconds(50));
  read();
  run_until([&] { return ended; });
  CHECK(got == sent);
  bool client_ended = false;
  char byte = 0;
  client->async_read_some(asio::buffer(&byte, 1), [&](const auto& ec, std::size_t) {
    client_ended = ec == asio::error::eof;
  });
  server.reset();
  run_until([&] { return client_ended; });
}

}  // namespace
}  // namespace hvdrun
