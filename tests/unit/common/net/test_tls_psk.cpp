#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "common/base/error.h"
#include "common/net/tls_psk.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

// One accepting side with the right key; what became of each connection.
struct TlsFixture {
  TlsFixture() : acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    server = make_tls_context({"job", std::string(32, 'k')});
    acceptor.async_accept([this](const auto& ec, tcp::socket socket) {
      if (ec) return;
      async_tls_accept(io, server, std::move(socket), 500ms,
                       [this](std::error_code fault, std::unique_ptr<ByteStream> stream) {
                         accepted = fault;
                         server_stream = std::move(stream);
                       });
    });
  }
  std::string address() const { return endpoint_text(acceptor.local_endpoint()); }
  void connect(const std::string& identity, const std::string& secret,
               std::vector<std::string> addresses = {}) {
    if (addresses.empty()) addresses = {address()};
    client = make_tls_context({identity, secret});
    async_tls_connect(io, client, addresses, 2s,
                      [this](std::error_code fault, std::unique_ptr<ByteStream> stream) {
                        connected = fault;
                        client_stream = std::move(stream);
                      });
  }
  void run() {
    for (int i = 0; i < 300 && !(accepted && connected); ++i) {
      io.restart();
      io.run_for(10ms);
    }
    io.restart();
  }

  asio::io_context io{1};
  tcp::acceptor acceptor;
  std::shared_ptr<TlsContext> server;
  std::shared_ptr<TlsContext> client;
  std::optional<std::error_code> accepted;
  std::optional<std::error_code> connected;
  std::unique_ptr<ByteStream> server_stream;
  std::unique_ptr<ByteStream> client_stream;
};

TEST_CASE_METHOD(TlsFixture, "the same key on both sides carries bytes", "[tls]") {
  // An address where nobody listens and one that is none do not stand in the way.
  connect("job", std::string(32, 'k'), {"127.0.0.1:1", "nonsense", address()});
  run();
  REQUIRE(accepted == std::error_code());
  REQUIRE(connected == std::error_code());
  std::string got(5, '\0');
  server_stream->async_read_some(asio::buffer(got), [](const auto&, std::size_t) {});
  client_stream->async_write(asio::buffer("hello", 5), [](const auto&, std::size_t) {});
  io.run_for(200ms);
  CHECK(got == "hello");
}

// Reads into a buffer of this size until so many bytes are there.
void read_all(ByteStream& stream, std::string& got, std::vector<char>& buffer, std::size_t bytes) {
  stream.async_read_some(asio::buffer(buffer), [&, bytes](const auto& ec, std::size_t size) {
    if (ec) return;
    got.append(buffer.data(), size);
    if (got.size() < bytes) read_all(stream, got, buffer, bytes);
  });
}

TEST_CASE_METHOD(TlsFixture, "more than the sockets hold goes both ways at once", "[tls]") {
  connect("job", std::string(32, 'k'));
  run();
  REQUIRE(server_stream);
  REQUIRE(client_stream);
  std::string sent;
  for (std::size_t i = 0; i < 8'000'000; ++i) sent += static_cast<char>(i * i >> 7);
  std::string at_client;
  std::string at_server;
  std::vector<char> small(1000);
  std::vector<char> large(40'000);
  int written = 0;
  const auto count = [&](const auto& ec, std::size_t size) {
    if (!ec && size == sent.size()) ++written;
  };
  server_stream->async_write(asio::buffer(sent), count);
  client_stream->async_write(asio::buffer(sent), count);
  io.run_for(50ms);
  CHECK(written == 0);  // nobody reads
  read_all(*client_stream, at_client, small, sent.size());
  read_all(*server_stream, at_server, large, sent.size());
  for (int i = 0; i < 1000 && (at_client.size() < sent.size() || at_server.size() < sent.size());
       ++i) {
    io.restart();
    io.run_for(10ms);
  }
  io.run_for(10ms);
  CHECK(written == 2);
  CHECK((at_client == sent));
  CHECK((at_server == sent));
}

TEST_CASE_METHOD(TlsFixture, "the end of a stream, and of what is under way on it", "[tls]") {
  connect("job", std::string(32, 'k'));
  run();
  REQUIRE(server_stream);
  char byte = 0;
  std::optional<boost::system::error_code> end;
  server_stream->async_read_some(asio::buffer(&byte, 1),
                                 [&](const auto& ec, std::size_t) { end = ec; });
  SECTION("the other side is gone") {
    client_stream.reset();
    io.run_for(100ms);
    CHECK(end == asio::error::eof);
  }
  SECTION("the other side writes no more") {
    client_stream->shutdown_send();
    io.run_for(100ms);
    CHECK(end == asio::error::eof);
    // It still reads.
    std::string got(2, ' ');
    client_stream->async_read_some(asio::buffer(got), [](const auto&, std::size_t) {});
    server_stream->async_write(asio::buffer("ok", 2), [](const auto&, std::size_t) {});
    io.restart();
    io.run_for(100ms);
    CHECK(got == "ok");
  }
  SECTION("it is closed here") {
    server_stream->close();
    CHECK_FALSE(end);
    io.run_for(100ms);
    CHECK(end == asio::error::operation_aborted);
  }
  SECTION("it is destroyed here") {
    server_stream.reset();
    io.run_for(100ms);
    CHECK(end == asio::error::operation_aborted);
  }
}

TEST_CASE_METHOD(TlsFixture, "a wrong key is refused on both sides", "[tls]") {
  connect("job", std::string(32, 'x'));
  run();
  CHECK(accepted == std::error_code(Errc::auth_failed));
  REQUIRE(connected);
  CHECK(*connected);
  CHECK_FALSE(server_stream);
  CHECK_FALSE(client_stream);
}

TEST_CASE_METHOD(TlsFixture, "the key of another job is refused", "[tls]") {
  connect("other", std::string(32, 'k'));
  run();
  CHECK(accepted == std::error_code(Errc::auth_failed));
  REQUIRE(connected);
  CHECK(*connected);
}

TEST_CASE_METHOD(TlsFixture, "TLS without a key is refused", "[tls]") {
  asio::ssl::context context(asio::ssl::context::tls_client);
  context.set_verify_mode(asio::ssl::verify_none);
  asio::ssl::stream<tcp::socket> stream(io, context);
  stream.next_layer().async_connect(acceptor.local_endpoint(), [&](const auto& ec) {
    REQUIRE_FALSE(ec);
    stream.async_handshake(asio::ssl::stream_base::client, [&](const auto& fault) {
      connected = fault ? std::error_code(Errc::auth_failed) : std::error_code();
    });
  });
  run();
  CHECK(accepted == std::error_code(Errc::auth_failed));
  CHECK(connected == std::error_code(Errc::auth_failed));
}

TEST_CASE_METHOD(TlsFixture, "a plain peer is refused, a silent one times out", "[tls]") {
  tcp::socket socket(io);
  socket.connect(acceptor.local_endpoint());
  connected.emplace();
  SECTION("plain") {
    asio::write(socket, asio::buffer("GET / HTTP/1.0\r\n\r\n", 18));
    run();
    CHECK(accepted == std::error_code(Errc::auth_failed));
  }
  SECTION("silent") {
    run();
    CHECK(accepted == std::error_code(Errc::timeout));
  }
}

TEST_CASE_METHOD(TlsFixture, "nobody there is an error, not a wait", "[tls]") {
  accepted.emplace();
  connect("job", std::string(32, 'k'), {"127.0.0.1:1"});
  run();
  REQUIRE(connected);
  CHECK(*connected == std::errc::connection_refused);
  connected.reset();
  connect("job", std::string(32, 'k'), {"x:y"});
  run();
  REQUIRE(connected);
  CHECK(*connected == Errc::malformed);
}

TEST_CASE("addresses are read and written", "[tls]") {
  tcp::endpoint endpoint;
  for (const char* good : {"127.0.0.1:80", "[::1]:443"}) {
    REQUIRE_FALSE(parse_address(good, endpoint));
    CHECK(endpoint_text(endpoint) == good);
  }
  for (const char* bad : {"", ":", "host:1", "1.2.3.4", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536"})
    CHECK(parse_address(bad, endpoint) == Errc::malformed);
}

}  // namespace
}  // namespace hvdrun
