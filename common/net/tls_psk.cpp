#include "common/net/tls_psk.h"

#include <charconv>
#include <netinet/tcp.h>
#include <new>
#include <stdexcept>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <openssl/ssl.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/net/tls_connection.h"

namespace hvdrun {

namespace asio = boost::asio;
using asio::ip::tcp;

// Owned by a shared_ptr, because the handshakes under way look into it.
class TlsContext {
 public:
  explicit TlsContext(PskKey key)
      : key_(std::move(key)), context_(SSL_CTX_new(TLS_method()), &SSL_CTX_free) {
    SSL_CTX* const ctx = context_.get();
    if (ctx == nullptr) throw std::bad_alloc();
    if (!set_up_tls_context(linked_tls(), ctx, tls_key_callbacks<linked_tls>(),
                            TlsTraffic::control))
      throw std::runtime_error("OpenSSL refuses TLS 1.3 with a pre-shared key");
  }
  SSL_CTX* get() { return context_.get(); }
  const PskKey& key() const { return key_; }

 private:
  PskKey key_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
};

std::shared_ptr<TlsContext> make_tls_context(PskKey key) {
  return std::make_shared<TlsContext>(std::move(key));
}

namespace {

class TlsStream final : public ByteStream {
 public:
  TlsStream(std::shared_ptr<TlsContext> context, std::shared_ptr<TlsConnection> connection)
      : context_(std::move(context)), connection_(std::move(connection)) {}
  // An operation under way holds the connection, and ends with it.
  ~TlsStream() override { connection_->close(); }

  void async_read_some(asio::mutable_buffer buffer, Callback callback) override {
    connection_->async_read_some(buffer, std::move(callback));
  }
  void async_write(asio::const_buffer buffer, Callback callback) override {
    connection_->async_write(buffer, std::move(callback));
  }
  void keep_trying_for(std::chrono::milliseconds time) override {
    // TCP_RTO_MAX_MS, of Linux 6.15. Before it the pauses between two tries double, so that a
    // connection comes back as long after the network as that was away.
    constexpr int kRtoMaxMs = 44;
    using Patience = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
    using LongestPause = asio::detail::socket_option::integer<IPPROTO_TCP, kRtoMaxMs>;
    boost::system::error_code ignored;
    connection_->socket().set_option(Patience(static_cast<int>(time.count())), ignored);
    connection_->socket().set_option(LongestPause(1'000), ignored);
  }
  void shutdown_send() override { connection_->shutdown_send(); }
  void close() override { connection_->close(); }
  std::string local_ip() const override {
    boost::system::error_code gone;
    const tcp::endpoint endpoint = connection_->socket().local_endpoint(gone);
    const int family = endpoint.data()->sa_family;
    if (gone || (family != AF_INET && family != AF_INET6)) return {};
    const asio::ip::address address = endpoint.address();
    // A listener for both families sees an IPv4 address in the clothes of the other.
    if (address.is_v6() && address.to_v6().is_v4_mapped())
      return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
    return address.to_string();
  }

 private:
  std::shared_ptr<TlsContext> context_;
  std::shared_ptr<TlsConnection> connection_;
};

void tune(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  // So often that no box between the hosts forgets a connection for output that has none.
  using Idle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  socket.set_option(Idle(30), ignored);
  socket.set_option(Interval(30), ignored);
}

std::error_code translate(const boost::system::error_code& ec, bool timed_out) {
  if (timed_out) return Errc::timeout;
  if (ec == boost::system::errc::protocol_error) return Errc::auth_failed;
  if (ec == asio::error::eof) return Errc::closed;
  return ec;
}

// One connection on its way: connect (client), then the handshake, all before one deadline.
struct Attempt : std::enable_shared_from_this<Attempt> {
  Attempt(asio::io_context& io, std::shared_ptr<TlsContext> tls, tcp::socket raw, OnStream done)
      : context(std::move(tls)),
        connection(std::make_shared<TlsConnection>(std::move(raw), context->get())),
        timer(io),
        on_stream(std::move(done)) {}

  void start_deadline(std::chrono::milliseconds limit) {
    timer.expires_after(limit);
    timer.async_wait([self = shared_from_this()](const auto& ec) {
      if (ec || !self->on_stream) return;
      self->timed_out = true;
      self->abandon();
    });
  }
  void connect(const tcp::endpoint& endpoint) {
    connection->socket().async_connect(endpoint, [self = shared_from_this()](const auto& ec) {
      if (!self->on_stream) return;
      if (ec) return self->finish(ec);
      self->handshake(TlsEnd::connects);
    });
  }
  void handshake(TlsEnd end) {
    tune(connection->socket());
    connection->async_handshake(end, context->key(),
                                [self = shared_from_this()](const auto& ec) { self->finish(ec); });
  }
  void finish(const boost::system::error_code& ec) {
    timer.cancel();
    const auto done = std::exchange(on_stream, {});
    if (!done) return;
    if (ec) return done(translate(ec, timed_out), nullptr);
    done({}, std::make_unique<TlsStream>(context, std::move(connection)));
  }
  // Ends the pending operation, which then reports.
  void abandon() {
    if (connection) connection->close();
  }

  std::shared_ptr<TlsContext> context;
  std::shared_ptr<TlsConnection> connection;
  asio::steady_timer timer;
  OnStream on_stream;
  bool timed_out = false;
};

}  // namespace

void async_tls_accept(asio::io_context& io, std::shared_ptr<TlsContext> context, tcp::socket socket,
                      std::chrono::milliseconds limit, OnStream on_stream) {
  const auto attempt =
      std::make_shared<Attempt>(io, std::move(context), std::move(socket), std::move(on_stream));
  attempt->start_deadline(limit);
  attempt->handshake(TlsEnd::accepts);
}

void async_tls_connect_over(asio::io_context& io, std::shared_ptr<TlsContext> context,
                            UniqueFd socket, std::chrono::milliseconds limit, OnStream on_stream) {
  // Asio's type says which options there are, and those of TCP may fail.
  const auto attempt = std::make_shared<Attempt>(
      io, std::move(context), tcp::socket(io, tcp::v4(), socket.release()), std::move(on_stream));
  attempt->start_deadline(limit);
  attempt->handshake(TlsEnd::connects);
}

void async_tls_connect(asio::io_context& io, const std::shared_ptr<TlsContext>& context,
                       const std::vector<std::string>& addresses, std::chrono::milliseconds limit,
                       OnStream on_stream, OnFailure on_failure) {
  struct Race {
    OnStream on_stream;
    OnFailure on_failure;
    std::vector<std::shared_ptr<Attempt>> attempts;
    std::size_t left = 0;
    std::error_code last = Errc::not_found;
  };
  const auto race = std::make_shared<Race>();
  race->on_stream = std::move(on_stream);
  race->on_failure = std::move(on_failure);
  std::vector<tcp::endpoint> endpoints;
  for (const std::string& address : addresses) {
    tcp::endpoint endpoint;
    const std::error_code ec = parse_address(address, endpoint);
    if (ec) {
      race->last = ec;
    } else {
      endpoints.push_back(endpoint);
    }
  }
  if (endpoints.empty()) {
    asio::post(io, [race] { race->on_stream(race->last, nullptr); });
    return;
  }
  race->left = endpoints.size();
  const auto finished = [race](const std::string& address, std::error_code ec,
                               std::unique_ptr<ByteStream> stream) {
    --race->left;
    if (!race->on_stream) return;  // another address won
    if (ec) {
      race->last = ec;
      if (race->on_failure) race->on_failure(address, ec);
      if (race->left > 0) return;
    }
    const auto done = std::exchange(race->on_stream, {});
    for (const auto& attempt : race->attempts) attempt->abandon();
    race->attempts.clear();
    done(ec, std::move(stream));
  };
  for (const tcp::endpoint& endpoint : endpoints) {
    const auto attempt = std::make_shared<Attempt>(
        io, context, tcp::socket(io),
        [finished, address = endpoint_text(endpoint)](std::error_code ec, auto stream) {
          finished(address, ec, std::move(stream));
        });
    race->attempts.push_back(attempt);
    attempt->start_deadline(limit);
    attempt->connect(endpoint);
  }
}

std::error_code parse_address(const std::string& text, tcp::endpoint& endpoint) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return Errc::malformed;
  std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data() + colon + 1, end, port);
  if (ec != std::errc() || at != end || port == 0) return Errc::malformed;
  boost::system::error_code fault;
  const auto address = asio::ip::make_address(host, fault);
  if (fault) return Errc::malformed;
  endpoint = {address, port};
  return {};
}

std::string endpoint_text(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

}  // namespace hvdrun
