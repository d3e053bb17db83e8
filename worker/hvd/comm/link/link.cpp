#include "worker/hvd/comm/link/link.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace hvdrun {
namespace {

static_assert(std::endian::native == std::endian::little, "headers travel as they are in memory");

constexpr std::uint32_t kData = 0x44445648;     // "HVDD"
constexpr std::uint32_t kFailure = 0x46445648;  // "HVDF"
constexpr std::size_t kMaxFailure = 1024;       // bytes of code and text
constexpr std::size_t kMaxParts = 256;          // of messages in one call

std::size_t bytes_of(const iovec* parts, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

bool is_end(int error) { return error != EAGAIN && error != EWOULDBLOCK && error != EINTR; }

}  // namespace

Link::Link(std::unique_ptr<LinkChannel> channel, std::size_t rank)
    : channel_(std::move(channel)), rank_(rank) {}
Link::Link(UniqueFd socket, std::size_t rank)
    : Link(std::make_unique<LinkChannel>(std::move(socket)), rank) {}

void Link::send(std::uint32_t sequence, MessageMemory memory) {
  const std::size_t bytes = memory.left();
  sends_.push_back({{kData, sequence, bytes}, std::move(memory)});
}

void Link::receive(std::uint32_t sequence, MessageMemory memory) {
  const std::size_t bytes = memory.left();
  receives_.push_back({sequence, std::move(memory), bytes});
}

bool Link::progress() {
  const bool sent = progress_sends();
  return progress_receives() || sent;
}

bool Link::progress_sends() {
  bool moved = false;
  while (!closed_ && !sends_.empty()) {
    iovec parts[kMaxParts];
    std::size_t count = 0;
    for (std::size_t i = 0; i < sends_.size() && count < kMaxParts; ++i) {
      Send& send = sends_[i];
      if (send.head < sizeof send.header)
        parts[count++] = {reinterpret_cast<char*>(&send.header) + send.head,
                          sizeof send.header - send.head};
      count += send.memory.pieces(parts + count, kMaxParts - count);
    }
    const std::size_t all = bytes_of(parts, count);
    const ssize_t sent = channel_->send(parts, count);
    if (sent < 0) {
      // The other end's earlier words may still be there to be read.
      if (is_end(errno)) closed_ = true;
      return moved;
    }
    moved = true;
    for (auto left = static_cast<std::size_t>(sent); !sends_.empty();) {
      Send& send = sends_.front();
      const std::size_t head = std::min(left, sizeof send.header - send.head);
      const std::size_t body = std::min(left - head, send.memory.left());
      send.head += head;
      send.memory.advance(body);
      left -= head + body;
      if (send.left() > 0) break;
      sends_.pop_front();
      if (left == 0) break;
    }
    if (static_cast<std::size_t>(sent) < std::min(all, channel_->most())) return moved;
  }
  return moved;
}

std::size_t Link::read_some() {
  std::copy(buffer_ + begin_, buffer_ + end_, buffer_);
  end_ -= begin_;
  begin_ = 0;
  const iovec free{buffer_ + end_, kBufferBytes - end_};
  const std::size_t got = read_some(&free, 1);
  end_ += got;
  return got;
}

std::size_t Link::read_some(const iovec* parts, std::size_t count) {
  const ssize_t got = channel_->receive(parts, count);
  if (got == 0 || (got < 0 && is_end(errno))) ended_ = true;
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

bool Link::progress_receives() {
  bool moved = false;
  while (!failure_) {
    if (!header_) {
      if (!take_header()) {
        if (ended_ || read_some() == 0) return moved;
        moved = true;
        continue;
      }
    }
    if (header_->kind == kFailure) {
      if (buffered() >= header_->bytes) {
        take_failure();
        return true;
      }
      if (ended_ || read_some() == 0) return moved;
      moved = true;
      continue;
    }
    if (header_->sequence == abandoned_) {
      if (!skip_data(moved)) return moved;
      continue;
    }
    held_ = receives_.empty();
    if (held_) return moved;
    if (!take_data(moved)) return moved;
    moved = true;  // out of the buffer, perhaps
  }
  return moved;
}

bool Link::take_header() {
  if (buffered() < sizeof(LinkHeader)) return false;
  LinkHeader header;
  std::memcpy(&header, buffer_ + begin_, sizeof header);
  begin_ += sizeof header;
  const bool known = header.kind == kData ||
                     (header.kind == kFailure && header.bytes >= 4 && header.bytes <= kMaxFailure);
  if (!known)
    throw hvd::Error(hvd::ErrorCode::internal,
                     "rank " + std::to_string(rank_) + " sent what is no message");
  header_ = header;
  return true;
}

void Link::take_failure() {
  std::uint32_t code = 0;
  std::memcpy(&code, buffer_ + begin_, sizeof code);
  const std::string text(reinterpret_cast<const char*>(buffer_ + begin_) + sizeof code,
                         header_->bytes - sizeof code);
  const bool known = code <= static_cast<std::uint32_t>(hvd::ErrorCode::internal);
  failure_.emplace(known ? static_cast<hvd::ErrorCode>(code) : hvd::ErrorCode::internal, text);
}

// False: nothing more at the moment.
bool Link::take_data(bool& moved) {
  Receive& receive = receives_.front();
  if (header_->sequence != receive.sequence || header_->bytes != receive.bytes)
    throw hvd::Error(hvd::ErrorCode::mismatch,
                     "rank " + std::to_string(rank_) + " sent " + std::to_string(header_->bytes) +
                         " bytes in its operation " + std::to_string(header_->sequence) +
                         ", this rank expects " + std::to_string(receive.bytes) +
                         " in its operation " + std::to_string(receive.sequence));
  while (receive.memory.left() > 0) {
    if (buffered() > 0) {
      iovec next;
      receive.memory.pieces(&next, 1);
      const std::size_t part = std::min(next.iov_len, buffered());
      std::memcpy(next.iov_base, buffer_ + begin_, part);
      begin_ += part;
      receive.memory.advance(part);
      continue;
    }
    if (ended_) return false;
    // A small receive, or one in small pieces, comes with what follows it in one read.
    iovec parts[kMaxParts];
    const std::size_t count = receive.memory.pieces(parts, kMaxParts);
    const bool direct = bytes_of(parts, count) >= kBufferBytes;
    const std::size_t got = direct ? read_some(parts, count) : read_some();
    if (got == 0) return false;
    if (direct) receive.memory.advance(got);
    moved = true;
  }
  receives_.pop_front();
  header_.reset();
  return true;
}

void Link::abandon(std::uint32_t sequence) {
  receives_.clear();
  held_ = false;
  abandoned_ = sequence;
}

// False: nothing more at the moment.
bool Link::skip_data(bool& moved) {
  while (skipped_ < header_->bytes) {
    if (buffered() == 0) {
      if (ended_ || read_some() == 0) return false;
      moved = true;
    }
    const std::size_t part = std::min<std::uint64_t>(header_->bytes - skipped_, buffered());
    begin_ += part;
    skipped_ += part;
  }
  skipped_ = 0;
  header_.reset();
  return true;
}

void Link::give_up(const hvd::Error& reason) {
  const bool between = (sends_.empty() || sends_.front().head == 0) && !channel_->in_the_middle();
  if (between && !closed_) {
    const auto code = static_cast<std::uint32_t>(reason.code());
    std::string words(reinterpret_cast<const char*>(&code), sizeof code);
    words += reason.what();
    words.resize(std::min(words.size(), kMaxFailure));
    LinkHeader header{kFailure, 0, words.size()};
    words.insert(0, reinterpret_cast<const char*>(&header), sizeof header);
    // Words that do not fit into an empty socket's buffer are not worth waiting for.
    const iovec part{words.data(), words.size()};
    static_cast<void>(channel_->send(&part, 1));
  }
  sends_.clear();
  receives_.clear();
  closed_ = true;
  ::shutdown(channel_->fd(), SHUT_WR);
}

}  // namespace hvdrun
