// The messages of an output connection, agent to viewer and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/base_messages.h"

namespace hvdrun {

enum class OutputStream : std::uint8_t { out = 1, err = 2 };

// Whole lines of one rank and stream, as the program wrote them. `partial`: the last line goes on
// in the next frame, or ended without a newline.
struct Output {
  static constexpr auto kType = MessageType::output;
  std::uint32_t rank = 0;
  OutputStream stream{};
  bool partial = false;
  std::string bytes;
  std::uint32_t start = 0;  // of the slot's processes, the number of this one
  template <class V>
  void visit(V& v) {
    v(rank);
    v(stream);
    v(partial);
    v(bytes);
    v(start);
  }
};

// The viewer has shown this many bytes of the rank: the agent may send as many more.
struct Credit {
  static constexpr auto kType = MessageType::credit;
  std::uint32_t rank = 0;
  std::uint32_t bytes = 0;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(bytes);
  }
};

struct OutputClosed {
  static constexpr auto kType = MessageType::output_closed;
  std::uint32_t rank = 0;
  OutputStream stream{};
  template <class V>
  void visit(V& v) {
    v(rank);
    v(stream);
  }
};

// Bytes for the stdin of a rank; `end`: nothing comes after them.
struct Input {
  static constexpr auto kType = MessageType::input;
  std::uint32_t rank = 0;
  bool end = false;
  std::string bytes;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(end);
    v(bytes);
  }
};

// The rank can be sent so many bytes more. The first one tells that it waits for input at all.
struct InputCredit {
  static constexpr auto kType = MessageType::input_credit;
  std::uint32_t rank = 0;
  std::uint32_t bytes = 0;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(bytes);
  }
};

// The rank reads no more: it has closed its stdin, or ended, or never came.
struct InputClosed {
  static constexpr auto kType = MessageType::input_closed;
  std::uint32_t rank = 0;
  template <class V>
  void visit(V& v) {
    v(rank);
  }
};

}  // namespace hvdrun
