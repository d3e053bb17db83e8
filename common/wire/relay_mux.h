// Several streams of bytes over one channel, for the connections of an agent that go through ssh.
// Sans-I/O; both sides are alike. Each stream has a credit of its own, so that one which is not
// read never stops another, and what waits anywhere is bounded; control goes before output.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/wire/frame.h"
#include "common/wire/relay_messages.h"

namespace hvdrun {

class RelayMux {
 public:
  // Bytes of a stream that the other side may be ahead of whoever reads them here.
  static constexpr std::size_t kCredit = 256U << 10;
  // Bytes of a stream in one frame: so much at most goes before control.
  static constexpr std::size_t kMaxPiece = 16U << 10;

  struct Event {
    enum class What { opened, data, ended } what{};
    RelayStream stream{};
    std::string bytes;  // of data
  };

  // Bytes that the channel has brought, in any split. A fault (more than the credit, data of a
  // stream that is not open, anything else that makes no sense) stays: the channel is lost.
  std::error_code feed(std::string_view bytes, std::vector<Event>& events);

  void open(RelayStream stream);
  // The number of bytes that send() takes now: none while earlier ones wait for their turn or for
  // credit.
  std::size_t may_send(RelayStream stream) const;
  void send(RelayStream stream, std::string bytes);
  void end(RelayStream stream);
  // Data of this stream was handed on.
  void taken(RelayStream stream, std::size_t bytes);

  // The next frame for the channel; empty: nothing.
  std::string next();

 private:
  struct Lane {
    bool open = false;
    bool ended_here = false;
    bool ended_there = false;
    std::size_t credit = kCredit;    // that the other side has given
    std::size_t granted = kCredit;   // that it has from us, and has not used
    std::size_t owed = 0;            // taken, and not given back yet
    std::deque<std::string> frames;  // wait for their turn
    bool data_waits = false;
  };

  std::error_code on_frame(const Frame& frame, std::vector<Event>& events);
  Lane& lane(RelayStream stream) { return lanes_[static_cast<std::size_t>(stream)]; }

  FrameDecoder decoder_;
  std::array<Lane, kRelayStreams> lanes_;
  std::error_code fault_;
};

}  // namespace hvdrun
