// One of hvdrun's own outputs (stdout or stderr). Never blocks the program: what the kernel does
// not take waits here, and how much may wait is for the owner to decide.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/text/shared_fd.h"

namespace hvdrun {

class FdWriter {
 public:
  // For hurry(), after a signal.
  static constexpr std::chrono::milliseconds kPatience{1'000};

  // `on_progress` is called when some of the text has been handed to the kernel (or dropped), not
  // from write(); `on_broken` once when nobody can read any more (EPIPE): later text is dropped.
  FdWriter(boost::asio::io_context& io, int fd, std::function<void()> on_progress,
           std::function<void(int error)> on_broken);

  void write(std::string_view text);
  // Hands on now what the kernel takes at once; no callback but `on_broken` is called from here.
  void flush();
  // The last words: on a line of their own, instead of all that waits, and only if the kernel takes
  // them at once.
  void end_with(std::string_view text);
  // Somebody wants to leave: from now on it is abandoned when nothing is taken for so long.
  void hurry(std::chrono::milliseconds patience);
  // Drops what waits and all that comes.
  void abandon();
  // Bytes handed to the kernel so far.
  std::uint64_t written() const { return written_; }
  std::size_t waiting() const { return buffer_.size() - done_; }
  // Abandoned, or nobody can read any more.
  bool is_broken() const { return broken_; }
  bool is_terminal() const { return fd_.is_terminal(); }

 private:
  void schedule();
  void watch_progress();
  void write_some(std::size_t limit);  // bytes
  void pump();

  boost::asio::io_context& io_;
  SharedFd fd_;
  std::function<void()> on_progress_;
  std::function<void(int)> on_broken_;
  std::chrono::milliseconds patience_ = std::chrono::milliseconds::max();
  boost::asio::steady_timer patience_timer_;
  std::string buffer_;
  std::size_t done_ = 0;  // bytes of the buffer that are written
  std::uint64_t written_ = 0;
  bool scheduled_ = false;
  bool broken_ = false;
  bool mid_line_ = false;  // the last byte that was written ended no line
};

}  // namespace hvdrun
