// Frames over a ByteStream, on one io_context thread. What is sent while a write is under way is
// gathered into the next one. The queue is bounded: a peer that does not read ends the channel with
// Errc::queue_overflow.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/net/byte_stream.h"
#include "common/wire/frame.h"

namespace hvdrun {

class FrameChannel : public std::enable_shared_from_this<FrameChannel> {
 public:
  using OnFrame = std::function<void(Frame)>;
  // Once, when the channel ends by itself: eof is Errc::closed. Not called after close().
  using OnClosed = std::function<void(std::error_code)>;

  explicit FrameChannel(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  void start(OnFrame on_frame, OnClosed on_closed);
  // Exchanges the callbacks, e.g. once a handshake is through.
  void set_callbacks(OnFrame on_frame, OnClosed on_closed);

  template <class M>
  void send(const M& message, std::uint32_t epoch = 0) {
    send_bytes(encode_frame(message, epoch));
  }
  // One or more whole frames, encoded already.
  void send_bytes(std::string frames);
  // The beginning of a frame, then the rest of it, which other channels send as well and which is
  // not copied.
  void send_shared(std::string begin, std::shared_ptr<const std::string> rest);
  // One frame with a descriptor attached (Unix sockets only).
  void send_with_fd(std::string frame, UniqueFd fd);
  // As ByteStream's.
  void keep_trying_for(std::chrono::milliseconds time) { stream_->keep_trying_for(time); }
  std::size_t queued() const { return queued_; }
  std::string local_ip() const { return stream_->local_ip(); }

  // No callback comes after this.
  void close();
  // Sends what is queued, waits until the other side has read it and closed, then closes and calls
  // `done`; what still arrives is dropped. To close at once would lose what is on its way: a
  // socket that is closed with input unread resets the connection.
  void close_when_sent(std::function<void()> done = {});

 private:
  struct Piece {
    std::string bytes;
    UniqueFd fd;                                // goes with the first byte
    std::shared_ptr<const std::string> shared;  // in place of bytes

    const std::string& content() const { return shared ? *shared : bytes; }
  };

  bool may_queue(std::size_t bytes);
  void append(std::string bytes);
  void read();
  void resize_buffer(std::size_t size);
  void write();
  void end(std::error_code ec);

  std::unique_ptr<ByteStream> stream_;
  std::shared_ptr<OnFrame> on_frame_;
  OnClosed on_closed_;
  std::function<void()> on_drained_;
  FrameDecoder decoder_;
  std::vector<char> buffer_;  // what is read at once
  Piece writing_;
  std::deque<Piece> pending_;
  std::size_t queued_ = 0;
  bool write_active_ = false;
  bool write_failed_ = false;
  std::error_code failure_;
  bool closed_ = false;
  bool draining_ = false;
};

}  // namespace hvdrun
