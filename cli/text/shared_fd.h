// One of the descriptors 0 to 2, which belong to the user's shell too: O_NONBLOCK is never set on
// it, and yet no call here blocks. A pipe or terminal is opened anew, which gives a description of
// our own; a socket is asked not to wait; for anything else poll() is asked first and no more is
// moved than it vouches for. Regular files and /dev/null are always ready.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/base/unique_fd.h"

namespace hvdrun {

class SharedFd {
 public:
  enum class Use { read, write };

  // Throws std::system_error without a descriptor for the epoll.
  SharedFd(boost::asio::io_context& io, int fd, Use use);

  // False: the program was started with the descriptor closed.
  bool is_open() const { return static_cast<bool>(fd_); }
  bool is_terminal() const { return is_terminal_; }
  // Both write to the same file, so what goes to them mixes.
  static bool same_file(int a, int b);

  // As the system calls; EAGAIN when it would block, and EINTR never.
  ssize_t read(char* buffer, std::size_t size);
  ssize_t write(std::string_view bytes);

  // `ready` is called, not from in here, once it can go on. One wait at a time; not after
  // destruction.
  void async_wait(std::function<void()> ready);

 private:
  enum class Kind { own, socket, always_ready, careful };

  bool ready_now() const;

  boost::asio::io_context& io_;
  UniqueFd fd_;
  Use use_;
  Kind kind_ = Kind::careful;
  bool is_terminal_ = false;
  // Asio sets O_NONBLOCK on what it waits for; so it waits for an epoll that waits.
  boost::asio::posix::stream_descriptor epoll_;
};

}  // namespace hvdrun
