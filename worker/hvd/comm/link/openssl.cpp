#include "worker/hvd/comm/link/openssl.h"

#include <string>

#include <dlfcn.h>
#include <hvd/hvd.h>

namespace hvdrun {
namespace {

[[noreturn]] void missing(const std::string& why) {
  throw hvd::Error(
      hvd::ErrorCode::unavailable,
      "--encrypt-data needs OpenSSL's libssl.so.3 or libssl.so.1.1 on every host: " + why);
}

OpenSsl load() {
  std::string why;
  void* library = nullptr;
  for (const char* const name : {"libssl.so.3", "libssl.so.1.1"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    const char* const error = ::dlerror();  // NOLINT(concurrency-mt-unsafe): a thread has its own
    if (why.empty()) why = error != nullptr ? error : name;
  }
  if (library == nullptr) missing(why);
  OpenSsl functions;
  // Those of libcrypto are found through it too.
#define HVD_OPENSSL_LOAD(name)                                                          \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) missing("there is no " #name " in it");
  HVD_TLS_FUNCTIONS(HVD_OPENSSL_LOAD)
  HVD_OPENSSL_FUNCTIONS(HVD_OPENSSL_LOAD)
#undef HVD_OPENSSL_LOAD
  // Not to be cleaned up as the program exits: threads of ours may still send.
  functions.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  return functions;
}

}  // namespace

const OpenSsl& openssl() {
  static const OpenSsl functions = load();
  return functions;
}

}  // namespace hvdrun
