// 64-bit fingerprints by which ranks recognize names and operations. Not for secrets: whoever runs
// a rank of a job may call what it likes. Of 100,000 names two have the same one with a probability
// of 3e-10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hvdrun {

class Fingerprint {
 public:
  Fingerprint& add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15U;
    state_ ^= state_ >> 29U;
    return *this;
  }
  Fingerprint& add(double value) {
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&bits, &value, sizeof bits);
    return add(bits);
  }
  Fingerprint& add(std::string_view text) {
    add(std::uint64_t{text.size()});
    while (!text.empty()) {
      std::uint64_t bits = 0;
      const std::size_t part = text.size() < sizeof bits ? text.size() : sizeof bits;
      std::memcpy(&bits, text.data(), part);
      text.remove_prefix(part);
      add(bits);
    }
    return *this;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x2545f4914f6cdd1dU;
};

}  // namespace hvdrun
