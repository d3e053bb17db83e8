#include "common/net/tls_connection.h"

#include <cerrno>
#include <new>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace hvdrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

const TlsFunctions& linked_tls() {
#define HVD_TLS_LINK(name) .name = &::name,
  static constexpr TlsFunctions kFunctions{HVD_TLS_FUNCTIONS(HVD_TLS_LINK)};
#undef HVD_TLS_LINK
  return kFunctions;
}

// OpenSSL's own socket BIO would raise SIGPIPE, and keeps errno to itself.
struct TlsConnection::Carrier {
  static TlsConnection& of(BIO* bio) { return *static_cast<TlsConnection*>(BIO_get_data(bio)); }

  static int report(BIO* bio, ssize_t size, int retry) {
    BIO_clear_retry_flags(bio);
    if (size < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
      else
        of(bio).errno_ = errno;
    }
    return static_cast<int>(size);
  }
  static int send(BIO* bio, const char* bytes, int size) {
    const ssize_t sent = ::send(of(bio).socket_.native_handle(), bytes,
                                static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
    return report(bio, sent, BIO_FLAGS_WRITE);
  }
  static int receive(BIO* bio, char* bytes, int size) {
    const ssize_t got = ::recv(of(bio).socket_.native_handle(), bytes,
                               static_cast<std::size_t>(size), MSG_DONTWAIT);
    of(bio).at_end_ = got == 0;
    return report(bio, got, BIO_FLAGS_READ);
  }
  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return of(bio).at_end_ ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* const method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket");
      if (method == nullptr) throw std::bad_alloc();
      BIO_meth_set_write(method, &Carrier::send);
      BIO_meth_set_read(method, &Carrier::receive);
      BIO_meth_set_ctrl(method, &Carrier::control);
      return method;
    }();
    return made;
  }
};

TlsConnection::TlsConnection(tcp::socket socket, SSL_CTX* context)
    : socket_(std::move(socket)), ssl_(SSL_new(context), &SSL_free) {
  BIO* const bio = BIO_new(Carrier::method());
  if (!ssl_ || bio == nullptr) {
    BIO_free(bio);
    throw std::bad_alloc();
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
}

TlsConnection::~TlsConnection() = default;

void TlsConnection::async_handshake(TlsEnd end, const PskKey& key, Done done) {
  handshake_done_ = std::move(done);
  set_up_tls_end(linked_tls(), ssl_.get(), end, key);
  soon(&TlsConnection::shake_hands);
}

void TlsConnection::async_read_some(asio::mutable_buffer buffer, Callback callback) {
  read_buffer_ = buffer;
  read_done_ = std::move(callback);
  // Bytes that OpenSSL has read ahead make no socket ready.
  if (closed_ || SSL_has_pending(ssl_.get()) != 0) return soon(&TlsConnection::read);
  when_ready(tcp::socket::wait_read, &TlsConnection::read);
}

void TlsConnection::async_write(asio::const_buffer buffer, Callback callback) {
  write_buffer_ = buffer;
  written_ = 0;
  write_done_ = std::move(callback);
  write();
}

void TlsConnection::shake_hands() {
  error_code fault;
  if (closed_) {
    fault = asio::error::operation_aborted;
  } else {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1 && again(result, &TlsConnection::shake_hands, fault)) return;
    if (result == 1 && !tls_peer_holds_key(linked_tls(), ssl_.get()))
      fault = make_error_code(boost::system::errc::protocol_error);
  }
  std::exchange(handshake_done_, {})(fault);
}

void TlsConnection::read() {
  error_code fault;
  std::size_t size = 0;
  if (closed_) {
    fault = asio::error::operation_aborted;
  } else {
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), read_buffer_.data(), read_buffer_.size(), &size);
    if (result != 1 && again(result, &TlsConnection::read, fault)) return;
  }
  std::exchange(read_done_, {})(fault, size);
}

void TlsConnection::write() {
  while (!closed_ && written_ < write_buffer_.size()) {
    const asio::const_buffer rest = write_buffer_ + written_;
    std::size_t size = 0;
    error_code fault;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_.get(), rest.data(), rest.size(), &size);
    if (result != 1) {
      if (again(result, &TlsConnection::write, fault)) return;
      return end_write(fault);
    }
    written_ += size;
  }
  end_write(closed_ ? asio::error::operation_aborted : error_code());
}

void TlsConnection::end_write(const error_code& ec) {
  asio::post(socket_.get_executor(),
             [done = std::exchange(write_done_, {}), ec, size = written_] { done(ec, size); });
}

bool TlsConnection::again(int result, Step step, error_code& fault) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      when_ready(tcp::socket::wait_read, step);
      return true;
    case SSL_ERROR_WANT_WRITE:
      when_ready(tcp::socket::wait_write, step);
      return true;
    case SSL_ERROR_ZERO_RETURN:
      fault = asio::error::eof;
      return false;
    case SSL_ERROR_SYSCALL:
      fault = asio::error::eof;
      if (errno_ != 0) fault.assign(errno_, boost::system::system_category());
      return false;
    default:
      fault = make_error_code(boost::system::errc::protocol_error);
      return false;
  }
}

// The next attempt of an operation. When it is never made, because the io_context ends before, the
// operation's callback goes with it: it may hold what holds this connection.
class TlsConnection::Turn {
 public:
  Turn(std::shared_ptr<TlsConnection> connection, Step step)
      : connection_(std::move(connection)), step_(step) {}
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (connection_) connection_->drop(step_);
  }
  void operator()() { (std::exchange(connection_, nullptr).get()->*step_)(); }

 private:
  std::shared_ptr<TlsConnection> connection_;
  Step step_;
};

void TlsConnection::drop(Step step) {
  // Out of the way first: what a callback holds may come back here when it goes.
  const auto handshake_done =
      step == &TlsConnection::shake_hands ? std::exchange(handshake_done_, {}) : Done();
  const auto read_done = step == &TlsConnection::read ? std::exchange(read_done_, {}) : Callback();
  const auto write_done =
      step == &TlsConnection::write ? std::exchange(write_done_, {}) : Callback();
}

// An error of the wait is found again, and told better, by the step.
void TlsConnection::when_ready(asio::socket_base::wait_type what, Step step) {
  socket_.async_wait(
      what, [turn = Turn(shared_from_this(), step)](const error_code&) mutable { turn(); });
}

void TlsConnection::soon(Step step) {
  asio::post(socket_.get_executor(), [turn = Turn(shared_from_this(), step)]() mutable { turn(); });
}

void TlsConnection::shutdown_send() {
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

void TlsConnection::close() {
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace hvdrun
