// One of hvdrun's own outputs (stdout or stderr). Never blocks the program and never sets
// O_NONBLOCK, because descriptors 0 to 2 are shared with the user's shell: it writes only as much
// as the kernel says it takes at once.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace hvdrun {

class Console {
 public:
  // `on_broken` is called once when nobody can read any more (EPIPE); later output is dropped.
  Console(boost::asio::io_context& io, int fd, std::function<void(int error)> on_broken);

  // `written` is called once the text has been handed to the kernel (or dropped).
  void write(std::string text, std::function<void()> written = {});
  bool idle() const { return queue_.empty(); }
  bool is_terminal() const { return is_terminal_; }

 private:
  struct Item {
    std::string text;
    std::size_t done = 0;
    std::function<void()> written;
  };

  void schedule();
  void pump();
  bool writable_now() const;

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor fd_;
  std::function<void(int)> on_broken_;
  std::deque<Item> queue_;
  bool scheduled_ = false;
  bool broken_ = false;
  bool is_terminal_ = false;
};

}  // namespace hvdrun
