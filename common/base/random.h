// Random bytes from the kernel: job secrets and job ids.
#pragma once

#include <cstddef>
#include <string>

namespace hvdrun {

inline constexpr std::size_t kSecretBytes = 32;
inline constexpr std::size_t kJobIdBytes = 16;

// Throws std::system_error when the kernel has none to give.
std::string random_bytes(std::size_t count);
// Two lower-case hexadecimal digits a byte.
std::string to_hex(const std::string& bytes);

}  // namespace hvdrun
