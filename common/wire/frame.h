// The framing of every hvdrun connection (docs/protocol.md): a 12-byte header, then the payload.
//
//   u32 payload length | u16 message type | u16 zero | u32 epoch       all big-endian
//
// Sans-I/O: the decoder is fed bytes as they come, in any split, and hands out whole frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "common/wire/wire.h"

namespace hvdrun {

enum class MessageType : std::uint16_t;  // common/wire/messages.h

struct Frame {
  MessageType type{};
  std::uint32_t epoch = 0;
  std::string payload;
};

inline constexpr std::size_t kFrameHeaderBytes = 12;

// Appends the header of a frame whose payload has so many bytes.
void append_header(std::string& out, MessageType type, std::uint32_t epoch, std::size_t payload);
// Appends header and payload to `out`.
void append_frame(std::string& out, MessageType type, std::uint32_t epoch,
                  std::string_view payload);

// The type in a whole frame's bytes.
MessageType type_of(std::string_view frame);

// A whole message as the bytes of one frame.
template <class M>
std::string encode_frame(const M& message, std::uint32_t epoch = 0) {
  std::string out;
  append_frame(out, M::kType, epoch, encode(message));
  return out;
}

class FrameDecoder {
 public:
  // Takes the next bytes of the stream.
  void feed(std::string_view bytes);
  // The next whole frame, or nothing. After a fault `ec` is set and stays set: the stream is lost.
  std::optional<Frame> next(std::error_code& ec);
  // Bytes of an unfinished frame are waiting.
  bool mid_frame() const { return position_ < buffer_.size(); }

 private:
  std::string buffer_;
  std::size_t position_ = 0;  // start of the first frame not handed out yet
  std::error_code error_;
};

}  // namespace hvdrun
