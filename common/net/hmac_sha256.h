// HMAC-SHA-256 (RFC 2104, FIPS 180-4), for libhvd, which links no cryptographic library: it proves
// the two ends of a data connection to each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

inline constexpr std::size_t kSha256Bytes = 32;

using Sha256Digest = std::array<std::uint8_t, kSha256Bytes>;

Sha256Digest sha256(std::string_view message);
// The digest's bytes as a string.
std::string hmac_sha256(std::string_view key, std::string_view message);
// Takes the same time wherever the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace hvdrun
