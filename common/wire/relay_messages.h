// The messages of a relay: connections of an agent that are carried by the ssh channel, because the
// agent reaches none of the driver's addresses (common/wire/relay_mux.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/wire/base_messages.h"

namespace hvdrun {

// One of an agent's connections.
enum class RelayStream : std::uint8_t { control = 0, output = 1 };
inline constexpr std::size_t kRelayStreams = 2;

struct RelayOpen {
  static constexpr auto kType = MessageType::relay_open;
  RelayStream stream{};
  template <class V>
  void visit(V& v) {
    v(stream);
  }
};

struct RelayData {
  static constexpr auto kType = MessageType::relay_data;
  RelayStream stream{};
  std::string bytes;
  template <class V>
  void visit(V& v) {
    v(stream);
    v(bytes);
  }
};

// So many bytes have been handed on: as many more may come.
struct RelayCredit {
  static constexpr auto kType = MessageType::relay_credit;
  RelayStream stream{};
  std::uint32_t bytes = 0;
  template <class V>
  void visit(V& v) {
    v(stream);
    v(bytes);
  }
};

// Nothing more comes from this side.
struct RelayEnd {
  static constexpr auto kType = MessageType::relay_end;
  RelayStream stream{};
  template <class V>
  void visit(V& v) {
    v(stream);
  }
};

}  // namespace hvdrun
