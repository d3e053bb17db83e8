// OpenSSL's functions, loaded when a job encrypts its data and not before: one libhvd serves hosts
// with and without OpenSSL, and a rank that does not need it starts without it.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/net/tls_settings.h"

namespace hvdrun {

// Those that tls_settings.h does not have; in versions 1.1.1 and 3 alike.
// clang-format off
#define HVD_OPENSSL_FUNCTIONS(one) \
  one(BIO_clear_flags) one(BIO_get_data) one(BIO_meth_new) one(BIO_meth_set_ctrl) \
  one(BIO_meth_set_read) one(BIO_meth_set_write) one(BIO_new) one(BIO_set_data) \
  one(BIO_set_flags) one(BIO_set_init) one(ERR_clear_error) one(ERR_peek_last_error) \
  one(ERR_reason_error_string) one(OPENSSL_init_crypto) one(SSL_CTX_free) one(SSL_CTX_new) one(SSL_do_handshake) \
  one(SSL_free) one(SSL_get_error) one(SSL_new) one(SSL_read) one(SSL_set_bio) one(SSL_write) \
  one(TLS_method)
// clang-format on
struct OpenSsl : TlsFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): they are types and names
#define HVD_OPENSSL_MEMBER(name) decltype(&::name) name = nullptr;
  HVD_OPENSSL_FUNCTIONS(HVD_OPENSSL_MEMBER)
#undef HVD_OPENSSL_MEMBER
};

// Loads it on the first call; from any thread. Throws hvd::Error(unavailable) where there is none.
const OpenSsl& openssl();

}  // namespace hvdrun
