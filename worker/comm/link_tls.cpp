#include "worker/comm/link_tls.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <vector>

#include <hvd/hvd.h>

#include "common/hmac_sha256.h"
#include "worker/comm/openssl.h"

namespace hvdrun {
namespace {

constexpr std::string_view kIdentity = "hvdrun data";
constexpr std::size_t kRecordBytes = 16'384;
// What SSL_set_app_data uses.
constexpr int kOwner = 0;

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
      : secret_(hmac_sha256(key, "tls")), context_(openssl().SSL_CTX_new(openssl().TLS_method())) {
    const OpenSsl& ssl = openssl();
    if (context_ == nullptr || socket_method() == nullptr) no_memory();
    ssl.SSL_CTX_ctrl(context_, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
    ssl.SSL_CTX_ctrl(context_, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
    // A message may be sent again from a longer list of parts; it begins with the same bytes.
    ssl.SSL_CTX_ctrl(context_, SSL_CTRL_MODE,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
    ssl.SSL_CTX_ctrl(context_, SSL_CTRL_SET_READ_AHEAD, 1, nullptr);
    ssl.SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256");
    ssl.SSL_CTX_set_num_tickets(context_, 0);
    ssl.SSL_CTX_set_psk_find_session_callback(context_, &Context::find_session);
    ssl.SSL_CTX_set_psk_use_session_callback(context_, &Context::use_session);
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
    lib.SSL_set_ex_data(ssl, kOwner, this);
    if (accepts)
      lib.SSL_set_accept_state(ssl);
    else
      lib.SSL_set_connect_state(ssl);
    return ssl;
  }

 private:
  static const Context& owner(const SSL* ssl) {
    return *static_cast<const Context*>(openssl().SSL_get_ex_data(ssl, kOwner));
  }

  // The key as a session that both sides make for themselves.
  SSL_SESSION* make_session(SSL* ssl) const {
    static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
    const OpenSsl& lib = openssl();
    const SSL_CIPHER* const cipher = lib.SSL_CIPHER_find(ssl, kAes128GcmSha256);
    SSL_SESSION* const session = lib.SSL_SESSION_new();
    if (session == nullptr) return nullptr;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(secret_.data());
    if (cipher != nullptr && lib.SSL_SESSION_set1_master_key(session, bytes, secret_.size()) == 1 &&
        lib.SSL_SESSION_set_cipher(session, cipher) == 1 &&
        lib.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
      return session;
    lib.SSL_SESSION_free(session);
    return nullptr;
  }

  static int find_session(SSL* ssl, const unsigned char* identity, size_t size,
                          SSL_SESSION** session) {
    const std::string_view name(reinterpret_cast<const char*>(identity), size);
    *session = name == kIdentity ? owner(ssl).make_session(ssl) : nullptr;
    return 1;  // without a key it ends for want of a certificate
  }
  static int use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size,
                         SSL_SESSION** session) {
    *session = owner(ssl).make_session(ssl);
    *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
    *size = kIdentity.size();
    return *session != nullptr ? 1 : 0;
  }

  const std::string secret_;
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
    if (result == 1) return Progress::done;
    const int fault = lib.SSL_get_error(ssl_, result);
    if (fault == SSL_ERROR_WANT_READ) return Progress::wants_input;
    if (fault == SSL_ERROR_WANT_WRITE) return Progress::wants_output;
    const int error = errno;
    const char* const reason = lib.ERR_reason_error_string(lib.ERR_peek_last_error());
    if (reason != nullptr)
      problem_ = reason;
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
