#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "common/base/random.h"
#include "common/net/hmac_sha256.h"
#include "tests/catch.h"

using namespace hvdrun;

namespace {

std::string hex(const Sha256Digest& digest) {
  return to_hex(std::string(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace

TEST_CASE("SHA-256 gives the digests of FIPS 180-4", "[hmac]") {
  CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("HMAC-SHA-256 agrees with OpenSSL at every length", "[hmac]") {
  const std::string noise = random_bytes(300);
  for (std::size_t length = 0; length <= 150; ++length) {
    for (const std::size_t key_bytes : {std::size_t{0}, std::size_t{32}, std::size_t{64}, length}) {
      const std::string key = noise.substr(0, key_bytes);
      const std::string message = noise.substr(100, length);
      unsigned char want[EVP_MAX_MD_SIZE];
      unsigned int bytes = 0;
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), want, &bytes);
      CAPTURE(length, key_bytes);
      CHECK(hmac_sha256(key, message) == std::string(reinterpret_cast<const char*>(want), bytes));
    }
  }
}

TEST_CASE("digests are compared whole", "[hmac]") {
  CHECK(equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "abd"));
  CHECK_FALSE(equal_in_constant_time("abc", "ab"));
}
