#include "worker/hvd/comm/link/link_tls.h"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <system_error>
#include <vector>

#include <hvd/hvd.h>

#include "common/net/hmac_sha256.h"
#include "worker/hvd/comm/link/openssl.h"

namespace hvdrun {
namespace {

constexpr std::size_t kRecordBytes = 16'384;
constexpr const char* kNoKey = "the other end does not hold this job's key";

// OpenSSL's own socket BIO would send without MSG_NOSIGNAL: a peer that dies would kill the rank.
int write_socket(BIO* bio, const char* data, int bytes) {
  const OpenSsl& ssl = openssl();
  const int fd = static_cast<LinkChannel*>(ssl.BIO_get_data(bio))->fd();
  ssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  const ssize_t sent =
      ::send(fd, data, static_cast<std::size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR))
    ssl.BIO_set_flags(bio, BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(sent);
}

int read_socket(BIO* bio, char* data, int bytes) {
  const OpenSsl& ssl = openssl();
  const int fd = static_cast<LinkChannel*>(ssl.BIO_get_data(bio))->fd();
  ssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  const ssize_t got = ::recv(fd, data, static_cast<std::size_t>(bytes), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    ssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(got);
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    const OpenSsl& ssl = openssl();
    BIO_METHOD* const made = ssl.BIO_meth_new(BIO_TYPE_SOURCE_SINK, "hvdrun link");
    if (made == nullptr) return made;
    ssl.BIO_meth_set_write(made, &write_socket);
    ssl.BIO_meth_set_read(made, &read_socket);
    ssl.BIO_meth_set_ctrl(made, &control_socket);
    return made;
  }();
  return method;
}

[[noreturn]] void no_memory() {
  throw hvd::Error(hvd::ErrorCode::unavailable, "OpenSSL cannot be set up for --encrypt-data");
}

}  // namespace

class LinkTls::Context {
 public:
  explicit Context(const std::string& key)
      : key_{"hvdrun data", hmac_sha256(key, "tls")},
        context_(openssl().SSL_CTX_new(openssl().TLS_method())) {
    const OpenSsl& ssl = openssl();
    if (context_ == nullptr || socket_method() == nullptr ||
        !set_up_tls_context(ssl, context_, tls_key_callbacks<tls_functions>(), TlsTraffic::data))
      no_memory();
  }
  ~Context() { openssl().SSL_CTX_free(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  SSL* connection(LinkChannel& channel, bool accepts) {
    const OpenSsl& lib = openssl();
    SSL* const ssl = lib.SSL_new(context_);
    BIO* const bio = lib.BIO_new(socket_method());
    if (ssl == nullptr || bio == nullptr) no_memory();
    lib.BIO_set_data(bio, &channel);
    lib.BIO_set_init(bio, 1);
    lib.SSL_set_bio(ssl, bio, bio);
    set_up_tls_end(lib, ssl, accepts ? TlsEnd::accepts : TlsEnd::connects, key_);
    return ssl;
  }

 private:
  static const TlsFunctions& tls_functions() { return openssl(); }

  const PskKey key_;
  SSL_CTX* const context_;
};

namespace {

class TlsChannel final : public LinkTls::Channel {
 public:
  explicit TlsChannel(UniqueFd socket) : Channel(std::move(socket)) {
    staged_.reserve(kRecordBytes);
  }
  ~TlsChannel() override { openssl().SSL_free(ssl_); }
  void set(SSL* ssl) { ssl_ = ssl; }

  Progress handshake() override {
    const OpenSsl& lib = openssl();
    lib.ERR_clear_error();
    errno = 0;
    const int result = lib.SSL_do_handshake(ssl_);
    if (result == 1 && tls_peer_holds_key(lib, ssl_)) return Progress::done;
    if (result == 1) {
      problem_ = kNoKey;
      return Progress::failed;
    }
    const int fault = lib.SSL_get_error(ssl_, result);
    if (fault == SSL_ERROR_WANT_READ) return Progress::wants_input;
    if (fault == SSL_ERROR_WANT_WRITE) return Progress::wants_output;
    const int error = errno;
    const char* const reason = lib.ERR_reason_error_string(lib.ERR_peek_last_error());
    if (reason != nullptr)
      problem_ = std::string(kNoKey) + " (" + reason + ")";
    else
      problem_ = error != 0 ? std::system_category().message(error) : "the connection was closed";
    return Progress::failed;
  }
  const std::string& problem() const override { return problem_; }

  // One record: OpenSSL wants the bytes in a row, and the same again after EAGAIN.
  ssize_t send(const iovec* parts, std::size_t count) override {
    for (std::size_t i = 0; staged_.size() < most() && !waits_ && i < count; ++i) {
      const auto* const data = static_cast<const char*>(parts[i].iov_base);
      staged_.insert(staged_.end(), data,
                     data + std::min(parts[i].iov_len, most() - staged_.size()));
    }
    if (staged_.empty()) return 0;
    const OpenSsl& lib = openssl();
    lib.ERR_clear_error();
    const int sent = lib.SSL_write(ssl_, staged_.data(), static_cast<int>(staged_.size()));
    waits_ = sent <= 0;
    if (waits_) return failed(sent);
    staged_.clear();
    return sent;
  }
  // Into the first of the parts: a record's rest stays with OpenSSL until the next call.
  ssize_t receive(const iovec* parts, std::size_t /*count*/) override {
    const OpenSsl& lib = openssl();
    lib.ERR_clear_error();
    const int got = lib.SSL_read(ssl_, parts[0].iov_base,
                                 static_cast<int>(std::min(parts[0].iov_len, kMostRead)));
    return got > 0 ? got : failed(got);
  }
  std::size_t most() const override { return kRecordBytes; }
  bool in_the_middle() const override { return waits_; }

 private:
  static constexpr std::size_t kMostRead = std::size_t{1} << 30;

  ssize_t failed(int result) {
    const int fault = openssl().SSL_get_error(ssl_, result);
    if (fault == SSL_ERROR_ZERO_RETURN) return 0;
    errno = fault == SSL_ERROR_WANT_READ || fault == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
  }

  SSL* ssl_ = nullptr;
  std::vector<char> staged_;
  bool waits_ = false;  // staged_ is to be sent again
  std::string problem_;
};

}  // namespace

LinkTls::LinkTls(const std::string& key) : context_(std::make_unique<Context>(key)) {}
LinkTls::~LinkTls() = default;

std::unique_ptr<LinkTls::Channel> LinkTls::over(UniqueFd socket, bool accepts) const {
  auto channel = std::make_unique<TlsChannel>(std::move(socket));
  channel->set(context_->connection(*channel, accepts));
  return channel;
}

}  // namespace hvdrun
