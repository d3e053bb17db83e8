#include "common/net/tls_settings.h"

#include <string_view>

namespace hvdrun {
namespace {

// The slot that SSL_set_app_data uses.
constexpr int kKeySlot = 0;

const PskKey& key_of(const TlsFunctions& lib, const SSL* ssl) {
  return *static_cast<const PskKey*>(lib.SSL_get_ex_data(ssl, kKeySlot));
}

// The key as a session that both ends make for themselves.
SSL_SESSION* make_session(const TlsFunctions& lib, SSL* ssl) {
  static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const std::string& secret = key_of(lib, ssl).secret;
  const SSL_CIPHER* const cipher = lib.SSL_CIPHER_find(ssl, kAes128GcmSha256);
  SSL_SESSION* const session = lib.SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(secret.data());
  if (cipher != nullptr && lib.SSL_SESSION_set1_master_key(session, bytes, secret.size()) == 1 &&
      lib.SSL_SESSION_set_cipher(session, cipher) == 1 &&
      lib.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  lib.SSL_SESSION_free(session);
  return nullptr;
}

}  // namespace

int tls_find_key(const TlsFunctions& lib, SSL* ssl, const unsigned char* identity, std::size_t size,
                 SSL_SESSION** session) {
  const std::string_view name(reinterpret_cast<const char*>(identity), size);
  // An unknown identity goes on without a key, and ends for want of a certificate.
  *session = name == key_of(lib, ssl).identity ? make_session(lib, ssl) : nullptr;
  return 1;
}

int tls_offer_key(const TlsFunctions& lib, SSL* ssl, const unsigned char** identity,
                  std::size_t* size, SSL_SESSION** session) {
  const PskKey& key = key_of(lib, ssl);
  *session = make_session(lib, ssl);
  *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
  *size = key.identity.size();
  return *session != nullptr ? 1 : 0;
}

bool set_up_tls_context(const TlsFunctions& lib, SSL_CTX* context, const TlsKeyCallbacks& callbacks,
                        TlsTraffic traffic) {
  const auto control = [&](int command, long number, const char* text = nullptr) {
    return lib.SSL_CTX_ctrl(context, command, number, const_cast<char*>(text));
  };
  // The machine's openssl.cnf does not matter: these are set in any case. First the one cipher that
  // the key is for, and a key exchange with each connection, whose secret does not come from the
  // key: what was recorded stays closed to who learns the key later.
  const bool done = control(SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION) == 1 &&
                    control(SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION) == 1 &&
                    lib.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                    lib.SSL_CTX_set_num_tickets(context, 0) == 1;
  lib.SSL_CTX_clear_options(context, SSL_OP_ALLOW_NO_DHE_KEX);
  // OpenSSL 3.5 would put a key of more than a kilobyte into each hello, for a group of its own
  // choice. One that keeps to FIPS may not know X25519.
  const bool has_groups = control(SSL_CTRL_SET_GROUPS_LIST, 0, "X25519:P-256") == 1 ||
                          control(SSL_CTRL_SET_GROUPS_LIST, 0, "P-256") == 1;
  control(SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF);
  lib.SSL_CTX_set_psk_find_session_callback(context, callbacks.find);
  lib.SSL_CTX_set_psk_use_session_callback(context, callbacks.use);
  // A message that could not be sent whole is sent again from elsewhere, or with more behind it. It
  // begins with the same bytes.
  const bool is_control = traffic == TlsTraffic::control;
  control(SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                             (is_control ? SSL_MODE_RELEASE_BUFFERS : 0));
  control(SSL_CTRL_SET_READ_AHEAD, 1);  // a record and its header in one call of the kernel
  // A peer that dies says no farewell; frames tell whether anything is missing.
  if (is_control) lib.SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  return done && has_groups;
}

void set_up_tls_end(const TlsFunctions& lib, SSL* ssl, TlsEnd end, const PskKey& key) {
  lib.SSL_set_ex_data(ssl, kKeySlot, const_cast<PskKey*>(&key));
  if (end == TlsEnd::accepts) {
    lib.SSL_set_accept_state(ssl);
    return;
  }
  lib.SSL_set_connect_state(ssl);
  // Every certificate is refused, as none has been named that could vouch for one. Not in the
  // context: an end of it that accepts would ask for certificates, too.
  lib.SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
}

bool tls_peer_holds_key(const TlsFunctions& lib, const SSL* ssl) {
  SSL_SESSION* const session = lib.SSL_get_session(ssl);
  return session != nullptr && lib.SSL_session_reused(ssl) == 1 &&
         lib.SSL_SESSION_get0_peer(session) == nullptr;
}

}  // namespace hvdrun
