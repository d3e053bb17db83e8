// A stranger at an address of a job, without its key: nothing of ours is sent to him, and he is in
// nobody's way.
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/base/error.h"
#include "common/net/tls_connection.h"
#include "common/net/tls_psk.h"
#include "tests/catch.h"
#include "tests/openssl_server.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using test::OpensslServer;
using namespace std::chrono_literals;

// An agent, as far as it connects: it says hello as soon as it may.
struct StrangerFixture {
  void connect(const std::vector<std::string>& addresses) {
    async_tls_connect(
        io, make_tls_context(key), addresses, 20s,
        [this](std::error_code fault, std::unique_ptr<ByteStream> stream) {
          connected = fault;
          client = std::move(stream);
          if (client)
            client->async_write(asio::buffer("hello", 5), [](const auto&, std::size_t) {});
        },
        [this](const std::string& address, std::error_code why) { failed[address] = why; });
  }
  template <class Condition>
  void run_until(Condition condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) {
      io.restart();
      io.run_for(10ms);
    }
  }

  const PskKey key{"job", std::string(32, 'k')};
  asio::io_context io{1};
  std::optional<std::error_code> connected;
  std::map<std::string, std::error_code> failed;
  std::unique_ptr<ByteStream> client;
};

TEST_CASE_METHOD(StrangerFixture, "a server without the job's key hears a hello and no more",
                 "[tls]") {
  const auto stranger = GENERATE(from_range(OpensslServer::strangers("job")));
  CAPTURE(stranger.what);
  OpensslServer server(stranger.options);
  connect({server.address()});
  run_until([&] { return connected.has_value(); });
  REQUIRE(connected);
  CHECK(*connected == Errc::auth_failed);
  CHECK(failed[server.address()] == Errc::auth_failed);
  CHECK_FALSE(client);
  CHECK(server.wait_for({"ERROR", "hello"}));
  CAPTURE(server.heard());
  CHECK((server.heard() == "ClientHello" || server.heard() == "ClientHello Alert"));
}

TEST_CASE_METHOD(StrangerFixture,
                 "strangers that answer first, or never, do not win and do not delay", "[tls]") {
  const auto strangers = OpensslServer::strangers("job");
  std::vector<std::unique_ptr<OpensslServer>> servers;
  std::vector<std::string> addresses;
  for (const auto& stranger : strangers) {
    servers.push_back(std::make_unique<OpensslServer>(stranger.options));
    addresses.push_back(servers.back()->address());
  }
  tcp::acceptor silent(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::acceptor real(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  addresses.push_back(endpoint_text(silent.local_endpoint()));
  addresses.push_back(endpoint_text(real.local_endpoint()));
  connect(addresses);
  // The real one comes when all the others have had their say.
  run_until([&] {
    bool all = true;
    for (const auto& server : servers)
      all = all && server->said().find("ERROR") != std::string::npos;
    return all || connected;
  });
  CHECK_FALSE(connected);
  std::optional<std::error_code> accepted;
  std::unique_ptr<ByteStream> stream;
  real.async_accept([&](const auto&, tcp::socket socket) {
    async_tls_accept(io, make_tls_context(key), std::move(socket), 20s,
                     [&](std::error_code fault, std::unique_ptr<ByteStream> accepted_stream) {
                       accepted = fault;
                       stream = std::move(accepted_stream);
                     });
  });
  run_until([&] { return accepted && connected; });
  CHECK(accepted == std::error_code());
  CHECK(connected == std::error_code());
  CHECK(failed.size() == servers.size());
  for (const auto& server : servers) CHECK(failed[server->address()] == Errc::auth_failed);
  REQUIRE(stream);
  std::string got(5, '\0');
  bool read = false;
  stream->async_read_some(asio::buffer(got), [&](const auto&, std::size_t) { read = true; });
  run_until([&] { return read; });
  CHECK(got == "hello");
}

TEST_CASE_METHOD(StrangerFixture, "who hangs up is told from who has no key", "[tls]") {
  tcp::acceptor leaving(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  leaving.async_accept([](const auto&, tcp::socket socket) {
    const auto held = std::make_shared<tcp::socket>(std::move(socket));
    // All that has come is taken first: what is left unread would be a reset.
    const auto hello = std::make_shared<std::string>(4096, '\0');
    held->async_read_some(asio::buffer(*hello), [held, hello](const auto&, std::size_t) {});
  });
  connect({endpoint_text(leaving.local_endpoint())});
  run_until([&] { return connected.has_value(); });
  CHECK(connected == std::error_code(Errc::closed));
}

TEST_CASE_METHOD(StrangerFixture, "a hello offers the key with a fresh exchange, and nothing else",
                 "[tls]") {
  tcp::acceptor silent(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  connect({endpoint_text(silent.local_endpoint())});
  tcp::socket socket(io);
  std::string record(4096, '\0');
  std::size_t size = 0;
  silent.async_accept(socket, [&](const auto&) {
    socket.async_read_some(asio::buffer(record), [&](const auto&, std::size_t got) { size = got; });
  });
  run_until([&] { return size > 0; });
  record.resize(size);
  auto extensions = test::extensions_of_hello(record);
  CHECK(extensions[0x2b] == std::string("\2\3\4", 3));                           // TLS 1.3
  CHECK(extensions[0x0a] == std::string("\0\4\0\x1d\0\x17", 6));                 // X25519, P-256
  CHECK(extensions[0x33].substr(0, 6) == std::string("\0\x24\0\x1d\0\x20", 6));  // one share
  CHECK(extensions[0x2d] == std::string("\1\1", 2));  // the key and an exchange, not the key alone
  CHECK(extensions[0x29].find("job") != std::string::npos);
  CHECK_FALSE(connected);
  socket.close();
  run_until([&] { return connected.has_value(); });  // what is under way owns itself
  CHECK(connected == std::error_code(Errc::closed));
}

// Two ends of one connection, by hand: what OpenSSL itself would let through.
TEST_CASE("who has proved the key is known whatever OpenSSL believes", "[tls]") {
  using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
  using Ssl = std::unique_ptr<SSL, void (*)(SSL*)>;
  const TlsFunctions& lib = linked_tls();
  const PskKey key{"job", std::string(32, 'k')};
  const bool keyed = GENERATE(true, false);
  CAPTURE(keyed);
  std::array contexts{Context(SSL_CTX_new(TLS_method()), &SSL_CTX_free),
                      Context(SSL_CTX_new(TLS_method()), &SSL_CTX_free)};
  std::array ends{Ssl(nullptr, &SSL_free), Ssl(nullptr, &SSL_free)};
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(set_up_tls_context(lib, contexts[i].get(), tls_key_callbacks<linked_tls>(),
                               TlsTraffic::control));
    ends[i].reset(SSL_new(contexts[i].get()));
    set_up_tls_end(lib, ends[i].get(), i == 0 ? TlsEnd::connects : TlsEnd::accepts, key);
  }
  if (!keyed) {
    const auto options = OpensslServer::strangers("job").front().options;
    REQUIRE(SSL_use_certificate_file(ends[1].get(), options[1].c_str(), SSL_FILETYPE_PEM) == 1);
    REQUIRE(SSL_use_PrivateKey_file(ends[1].get(), options[3].c_str(), SSL_FILETYPE_PEM) == 1);
    SSL_set_psk_find_session_callback(
        ends[1].get(), [](SSL*, const unsigned char*, std::size_t, SSL_SESSION** session) {
          *session = nullptr;
          return 1;
        });
    // As where the machine's openssl.cnf names somebody who vouches for certificates.
    SSL_set_verify(ends[0].get(), SSL_VERIFY_NONE, nullptr);
  }
  BIO* near = nullptr;
  BIO* far = nullptr;
  REQUIRE(BIO_new_bio_pair(&near, 0, &far, 0) == 1);
  SSL_set_bio(ends[0].get(), near, near);
  SSL_set_bio(ends[1].get(), far, far);
  int done = 0;
  for (int turn = 0; turn < 20 && done < 2; ++turn) {
    done = 0;
    for (const Ssl& end : ends) done += SSL_do_handshake(end.get()) == 1 ? 1 : 0;
  }
  REQUIRE(done == 2);
  CHECK(tls_peer_holds_key(lib, ends[0].get()) == keyed);
  CHECK(tls_peer_holds_key(lib, ends[1].get()) == keyed);
}

}  // namespace
}  // namespace hvdrun
