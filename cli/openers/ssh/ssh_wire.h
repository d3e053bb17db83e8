// Numbers and strings as ssh writes them: 32 bits in network order, and bytes behind their count.
// Sans-I/O; a reader that runs short says so, and its values are empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

inline void put_ssh_number(std::string& to, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(number >> shift & 0xff);
}

inline void put_ssh_string(std::string& to, std::string_view bytes) {
  put_ssh_number(to, static_cast<std::uint32_t>(bytes.size()));
  to += bytes;
}

class SshReader {
 public:
  explicit SshReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint32_t number() {
    if (bytes_.size() < 4) return fail();
    std::uint32_t value = 0;
    for (const char c : bytes_.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
    bytes_.remove_prefix(4);
    return value;
  }
  std::string_view string() {
    const std::uint32_t size = number();
    if (size > bytes_.size()) fail();
    const std::string_view value = bytes_.substr(0, ok_ ? size : 0);
    bytes_.remove_prefix(value.size());
    return value;
  }
  bool ok() const { return ok_; }

 private:
  std::uint32_t fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace hvdrun
