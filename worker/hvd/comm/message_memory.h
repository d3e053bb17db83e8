// The memory of one message: pieces in a row, of which those in front may have been moved already.
#pragma once

#include <cstddef>
#include <sys/uio.h>
#include <vector>

namespace hvdrun {

class MessageMemory {
 public:
  MessageMemory() = default;
  // Memory that is sent is not written to.
  MessageMemory(const void* data, std::size_t bytes) { add(data, bytes); }

  void add(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const iovec piece{const_cast<void*>(data), bytes};
    if (left_ == 0)
      first_ = piece;
    else
      more_.push_back(piece);
    left_ += bytes;
  }

  // Bytes that have not been moved.
  std::size_t left() const { return left_; }
  // Writes where they are, at most `most` pieces of them; returns how many it has written.
  std::size_t pieces(iovec* target, std::size_t most) const {
    if (left_ == 0 || most == 0) return 0;
    target[0] = first_;
    std::size_t count = 1;
    for (std::size_t i = next_; i < more_.size() && count < most; ++i) target[count++] = more_[i];
    return count;
  }
  // So many of them, left() at most, have been moved.
  void advance(std::size_t bytes) {
    left_ -= bytes;
    if (left_ == 0) {
      more_.clear();
      next_ = 0;
      return;
    }
    for (; bytes >= first_.iov_len; first_ = more_[next_++]) bytes -= first_.iov_len;
    first_.iov_base = static_cast<char*>(first_.iov_base) + bytes;
    first_.iov_len -= bytes;
  }

 private:
  iovec first_{};
  std::vector<iovec> more_;  // behind it, from next_ on; most messages have none
  std::size_t next_ = 0;
  std::size_t left_ = 0;
};

}  // namespace hvdrun
