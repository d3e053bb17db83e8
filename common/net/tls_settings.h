// TLS as hvdrun speaks it, at both ends and in every program: version 1.3, keyed by a secret that
// both hold. No other file sets anything of it (tests/style/test_tls_settings.py). Programs link
// OpenSSL and libhvd loads it when a job needs it, so OpenSSL's functions come in a table; of
// OpenSSL this takes the types only.
//
// Nobody has a certificate. An end that accepts refuses who offers no key or another one. An end
// that connects has to look for itself: a server may pass over the key that it is offered and
// answer with a certificate, and OpenSSL's clients believe any certificate unless told otherwise.
#pragma once

#include <cstddef>
#include <string>

#include <openssl/ssl.h>

namespace hvdrun {

// All of them are in versions 1.1.1 and 3 alike.
// clang-format off
#define HVD_TLS_FUNCTIONS(one) \
  one(SSL_CIPHER_find) one(SSL_CTX_clear_options) one(SSL_CTX_ctrl) one(SSL_CTX_set_ciphersuites) \
  one(SSL_CTX_set_num_tickets) one(SSL_CTX_set_options) one(SSL_CTX_set_psk_find_session_callback) \
  one(SSL_CTX_set_psk_use_session_callback) one(SSL_SESSION_free) one(SSL_SESSION_get0_peer) \
  one(SSL_SESSION_new) one(SSL_SESSION_set1_master_key) one(SSL_SESSION_set_cipher) \
  one(SSL_SESSION_set_protocol_version) one(SSL_get_ex_data) one(SSL_get_session) \
  one(SSL_session_reused) one(SSL_set_accept_state) one(SSL_set_connect_state) \
  one(SSL_set_ex_data) one(SSL_set_verify)
// clang-format on
struct TlsFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): they are types and names
#define HVD_TLS_MEMBER(name) decltype(&::name) name = nullptr;
  HVD_TLS_FUNCTIONS(HVD_TLS_MEMBER)
#undef HVD_TLS_MEMBER
};

struct PskKey {
  std::string identity;
  std::string secret;  // kSecretBytes bytes
};

enum class TlsEnd { connects, accepts };

// The answers to OpenSSL's questions for the key: the bodies of TlsKeyCallbacks.
int tls_find_key(const TlsFunctions& lib, SSL* ssl, const unsigned char* identity, std::size_t size,
                 SSL_SESSION** session);
int tls_offer_key(const TlsFunctions& lib, SSL* ssl, const unsigned char** identity,
                  std::size_t* size, SSL_SESSION** session);

struct TlsKeyCallbacks {
  SSL_psk_find_session_cb_func find;
  SSL_psk_use_session_cb_func use;
};

// `table` returns the functions. It is known at compile time because OpenSSL hands its callbacks
// nothing but the connection, and to ask that for anything takes the table.
template <const TlsFunctions& (*table)()>
TlsKeyCallbacks tls_key_callbacks() {
  return {
      [](SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
        return tls_find_key(table(), ssl, identity, size, session);
      },
      [](SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* size,
         SSL_SESSION** session) { return tls_offer_key(table(), ssl, identity, size, session); }};
}

// The connections of a context: many that are idle mostly and carry frames, or few that carry data
// at the speed of the network.
enum class TlsTraffic { control, data };

// All that decides who may be at the other end, how what is said is kept from others, and how it is
// buffered. False: this OpenSSL refuses one of the settings.
bool set_up_tls_context(const TlsFunctions& lib, SSL_CTX* context, const TlsKeyCallbacks& callbacks,
                        TlsTraffic traffic);

// A connection of such a context, before its handshake. `key` must outlive that.
void set_up_tls_end(const TlsFunctions& lib, SSL* ssl, TlsEnd end, const PskKey& key);

// To be asked after every handshake, before anything is sent: whether the other end has proved that
// it holds the key.
bool tls_peer_holds_key(const TlsFunctions& lib, const SSL* ssl);

}  // namespace hvdrun
