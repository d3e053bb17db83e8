// One of hvdrun's own outputs (stdout or stderr). Never blocks the program: what the kernel does
// not take waits here, and how much may wait is for the owner to decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "cli/shared_fd.h"

namespace hvdrun {

class Console {
 public:
  // `on_progress` is called when some of the text has been handed to the kernel (or dropped), not
  // from write(); `on_broken` once when nobody can read any more (EPIPE): later text is dropped.
  Console(boost::asio::io_context& io, int fd, std::function<void()> on_progress,
          std::function<void(int error)> on_broken);

  void write(std::string_view text);
  // Drops what waits and all that comes.
  void abandon();
  // Bytes handed to the kernel so far.
  std::uint64_t written() const { return written_; }
  std::size_t waiting() const { return buffer_.size() - done_; }
  bool is_terminal() const { return fd_.is_terminal(); }

 private:
  void schedule();
  void pump();

  boost::asio::io_context& io_;
  SharedFd fd_;
  std::function<void()> on_progress_;
  std::function<void(int)> on_broken_;
  std::string buffer_;
  std::size_t done_ = 0;  // bytes of the buffer that are written
  std::uint64_t written_ = 0;
  bool scheduled_ = false;
  bool broken_ = false;
};

}  // namespace hvdrun
