#include "common/wire/frame.h"

namespace hvdrun {
namespace {

struct Header {
  std::uint32_t length = 0;
  std::uint16_t type = 0;
  std::uint16_t zero = 0;
  std::uint32_t epoch = 0;
  template <class V>
  void visit(V& v) {
    v(length);
    v(type);
    v(zero);
    v(epoch);
  }
};

}  // namespace

void append_header(std::string& out, MessageType type, std::uint32_t epoch, std::size_t payload) {
  const Header header{static_cast<std::uint32_t>(payload), static_cast<std::uint16_t>(type), 0,
                      epoch};
  out += encode(header);
}

void append_frame(std::string& out, MessageType type, std::uint32_t epoch,
                  std::string_view payload) {
  append_header(out, type, epoch, payload.size());
  out += payload;
}

MessageType type_of(std::string_view frame) {
  Header header;
  if (decode(frame.substr(0, kFrameHeaderBytes), header)) return MessageType{};
  return static_cast<MessageType>(header.type);
}

void FrameDecoder::feed(std::string_view bytes) {
  // Drop what was handed out before growing, so that the buffer stays one frame long.
  if (position_ > 0) {
    buffer_.erase(0, position_);
    position_ = 0;
  }
  buffer_ += bytes;
}

std::optional<Frame> FrameDecoder::next(std::error_code& ec) {
  ec = error_;
  if (error_) return std::nullopt;
  const std::string_view rest = std::string_view(buffer_).substr(position_);
  if (rest.size() < kFrameHeaderBytes) return std::nullopt;
  Header header;
  ec = decode(rest.substr(0, kFrameHeaderBytes), header);
  if (!ec && header.zero != 0) ec = Errc::malformed;
  if (!ec && header.length > limits::kMaxFramePayload) ec = Errc::frame_too_large;
  if (ec) {
    error_ = ec;
    return std::nullopt;
  }
  if (rest.size() - kFrameHeaderBytes < header.length) return std::nullopt;
  Frame frame;
  frame.type = static_cast<MessageType>(header.type);
  frame.epoch = header.epoch;
  frame.payload = rest.substr(kFrameHeaderBytes, header.length);
  position_ += kFrameHeaderBytes + header.length;
  return frame;
}

}  // namespace hvdrun
