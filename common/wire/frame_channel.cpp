#include "common/wire/frame_channel.h"

#include <utility>

#include <boost/asio/error.hpp>

namespace hvdrun {
namespace {

// A quiet line needs a small buffer, and there are many; one that fills it gets a large one.
constexpr std::size_t kSmallRead = 1024;
constexpr std::size_t kLargeRead = 16384;

}  // namespace

void FrameChannel::start(OnFrame on_frame, OnClosed on_closed) {
  set_callbacks(std::move(on_frame), std::move(on_closed));
  read();
}

void FrameChannel::set_callbacks(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::make_shared<OnFrame>(std::move(on_frame));
  on_closed_ = std::move(on_closed);
}

bool FrameChannel::may_queue(std::size_t bytes) {
  if (closed_ || draining_ || failure_ || write_failed_) return false;
  if (queued_ + bytes <= limits::kMaxWriteQueue) return true;
  // Not end() from here: the owner must not be called back out of its own send.
  failure_ = Errc::queue_overflow;
  pending_.clear();
  stream_->close();
  return false;
}

void FrameChannel::send_bytes(std::string frames) {
  if (!may_queue(frames.size())) return;
  append(std::move(frames));
  if (!write_active_) write();
}

void FrameChannel::append(std::string bytes) {
  queued_ += bytes.size();
  if (pending_.empty() || pending_.back().shared) {
    pending_.push_back({std::move(bytes), UniqueFd(), nullptr});
  } else {
    pending_.back().bytes += bytes;
  }
}

void FrameChannel::send_shared(std::string begin, std::shared_ptr<const std::string> rest) {
  if (!may_queue(begin.size() + rest->size())) return;
  append(std::move(begin));
  queued_ += rest->size();
  pending_.push_back({{}, UniqueFd(), std::move(rest)});
  if (!write_active_) write();
}

void FrameChannel::send_with_fd(std::string frame, UniqueFd fd) {
  if (!may_queue(frame.size())) return;
  queued_ += frame.size();
  pending_.push_back({std::move(frame), std::move(fd), nullptr});
  if (!write_active_) write();
}

void FrameChannel::write() {
  write_active_ = true;
  writing_ = std::move(pending_.front());
  pending_.pop_front();
  const auto buffer = boost::asio::buffer(writing_.content());
  auto written = [self = shared_from_this()](const auto& ec, std::size_t) {
    if (self->closed_) return;
    self->write_active_ = false;
    self->queued_ -= self->writing_.content().size();
    self->writing_ = {};
    if (ec) {
      // Not the end yet: what the other side sent before it closed is still to be read.
      self->write_failed_ = true;
      self->pending_.clear();
      self->queued_ = 0;
      return;
    }
    if (!self->pending_.empty()) return self->write();
    if (self->draining_) self->stream_->shutdown_send();
  };
  if (writing_.fd) {
    stream_->async_write_with_fd(buffer, writing_.fd.get(), std::move(written));
  } else {
    stream_->async_write(buffer, std::move(written));
  }
}

void FrameChannel::read() {
  if (buffer_.empty()) resize_buffer(kSmallRead);
  stream_->async_read_some(
      boost::asio::buffer(buffer_), [self = shared_from_this()](const auto& ec, std::size_t size) {
        if (self->closed_) return;
        if (ec)
          return self->end(ec == boost::asio::error::eof ? std::error_code(Errc::closed)
                                                         : std::error_code(ec));
        self->decoder_.feed(std::string_view(self->buffer_.data(), size));
        std::error_code fault;
        while (auto frame = self->decoder_.next(fault)) {
          // Held: the callback may exchange the callbacks, or end the channel.
          const auto on_frame = self->on_frame_;
          if (!self->draining_) (*on_frame)(std::move(*frame));
          if (self->closed_) return;
        }
        if (fault) return self->end(fault);
        const std::size_t next = size == self->buffer_.size() ? kLargeRead : kSmallRead;
        // Between the two sizes it stays as it is.
        if (next == kLargeRead || size <= kSmallRead) self->resize_buffer(next);
        self->read();
      });
}

void FrameChannel::resize_buffer(std::size_t size) {
  if (buffer_.size() != size) buffer_ = std::vector<char>(size);
}

void FrameChannel::end(std::error_code ec) {
  if (closed_) return;
  if (failure_) ec = failure_;
  const bool was_draining = draining_;
  const auto on_closed = on_closed_;
  const auto done = std::exchange(on_drained_, {});
  close();
  if (done) done();
  if (!was_draining && on_closed) on_closed(ec);
}

void FrameChannel::close() {
  if (closed_) return;
  closed_ = true;
  stream_->close();
  // The callbacks may hold whoever owns this channel.
  on_frame_.reset();
  on_closed_ = {};
  on_drained_ = {};
}

void FrameChannel::close_when_sent(std::function<void()> done) {
  if (draining_) return;
  if (closed_) {
    if (done) done();
    return;
  }
  draining_ = true;
  on_drained_ = std::move(done);
  if (!write_active_) stream_->shutdown_send();
}

}  // namespace hvdrun
