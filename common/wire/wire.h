// Field-by-field encoding of messages: big-endian integers, strings and lists with a 32-bit count
// in front. One `visit(v)` member per message serves both directions, so that writer and reader
// cannot disagree:
//
//   struct Point { std::uint32_t x; std::string name;
//     template <class V> void visit(V& v) { v(x); v(name); } };
//
// Needs nothing but libstdc++: libhvd uses it too.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/limits.h"

namespace hvdrun {

class WireWriter {
 public:
  template <class T>
  void operator()(T& value) {
    using U = std::remove_const_t<T>;
    if constexpr (std::is_same_v<U, bool>) {
      put(value ? 1U : 0U, 1);
    } else if constexpr (std::is_enum_v<U>) {
      put(static_cast<std::uint64_t>(static_cast<std::underlying_type_t<U>>(value)), sizeof(U));
    } else if constexpr (std::is_unsigned_v<U>) {
      put(value, sizeof(U));
    } else if constexpr (std::is_same_v<U, std::string>) {
      put(value.size(), 4);
      out_.append(value);
    } else {
      value.visit(*this);
    }
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    put(list.size(), 4);
    for (auto& item : list) (*this)(item);
  }
  std::string take() { return std::move(out_); }

 private:
  void put(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = bytes; i-- > 0;) out_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string out_;
};

// Reads what WireWriter wrote. The first fault makes error() non-zero; every later field then stays
// as it was. Never throws on what a peer sent, never takes more memory than the input has bytes
// (times the size of an item).
class WireReader {
 public:
  explicit WireReader(std::string_view in) : in_(in) {}

  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::uint64_t raw = get(1);
      if (raw > 1) fail(Errc::malformed);
      value = raw == 1;
    } else if constexpr (std::is_enum_v<T> || std::is_unsigned_v<T>) {
      value = static_cast<T>(get(sizeof(T)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      const std::uint64_t size = get(4);
      if (size > limits::kMaxString) return fail(Errc::limit_exceeded);
      if (size > in_.size()) return fail(Errc::malformed);
      value.assign(in_.data(), size);
      in_.remove_prefix(size);
    } else {
      value.visit(*this);
    }
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    const std::uint64_t count = get(4);
    if (count > limits::kMaxListItems) return fail(Errc::limit_exceeded);
    if (count > in_.size()) return fail(Errc::malformed);  // an item has at least one byte
    list.clear();
    for (std::uint64_t i = 0; i < count && !error_; ++i) (*this)(list.emplace_back());
  }

  // After the last field: trailing bytes are a fault too.
  std::error_code finish() {
    if (!error_ && !in_.empty()) error_ = Errc::malformed;
    return error_;
  }
  std::error_code error() const { return error_; }

 private:
  std::uint64_t get(std::size_t bytes) {
    if (error_) return 0;
    if (in_.size() < bytes) {
      fail(Errc::malformed);
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(in_[i]);
    in_.remove_prefix(bytes);
    return value;
  }
  void fail(Errc errc) {
    if (!error_) error_ = errc;
    in_ = {};
  }
  std::string_view in_;
  std::error_code error_;
};

// Message to payload bytes.
template <class M>
std::string encode(const M& message) {
  WireWriter writer;
  const_cast<M&>(message).visit(writer);  // visit() is shared with the reader, which must write
  return writer.take();
}

// Payload bytes to message; `message` is unspecified when an error comes back.
template <class M>
[[nodiscard]] std::error_code decode(std::string_view payload, M& message) {
  WireReader reader(payload);
  message.visit(reader);
  return reader.finish();
}

}  // namespace hvdrun
