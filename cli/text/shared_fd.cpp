#include "cli/text/shared_fd.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>
#include <limits.h>

namespace hvdrun {
namespace {

// A writable pipe takes PIPE_BUF bytes without blocking; of a terminal's room poll() says less.
constexpr std::size_t kPipeChunk = PIPE_BUF;
constexpr std::size_t kTerminalChunk = 256;

// Opened anew, the master side of a pseudo-terminal would be another one.
bool is_master_terminal(int fd) {
  unsigned number = 0;
  return ::ioctl(fd, TIOCGPTN, &number) == 0;
}

// Repeats a system call that a signal has interrupted.
template <class Call>
ssize_t uninterrupted(Call call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

SharedFd::SharedFd(boost::asio::io_context& io, int fd, Use use)
    : io_(io),
      fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 3)),
      use_(use),
      is_terminal_(::isatty(fd) == 1),
      epoll_(io) {
  struct stat info {};
  if (!fd_ || ::fstat(fd, &info) != 0) return;
  if (S_ISFIFO(info.st_mode) || (is_terminal_ && !is_master_terminal(fd))) {
    const int flags = use == Use::read ? O_RDONLY : O_WRONLY;
    // Not possible for a terminal of another user (after su).
    UniqueFd own(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                        flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own) {
      fd_ = std::move(own);
      kind_ = Kind::own;
    }
  } else if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::socket;
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) throw std::system_error(errno, std::system_category(), "epoll_create1");
  epoll_.assign(epoll.release());
  epoll_event none{};
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd_.get(), &none) != 0)
    kind_ = Kind::always_ready;
}

bool SharedFd::same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  // The stand-in of a closed descriptor cannot be written.
  for (const int fd : {a, b})
    if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return false;
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool SharedFd::ready_now() const {
  pollfd wait{fd_.get(), static_cast<short>(use_ == Use::read ? POLLIN : POLLOUT), 0};
  return ::poll(&wait, 1, 0) == 1;
}

ssize_t SharedFd::read(char* buffer, std::size_t size) {
  if (kind_ == Kind::socket)
    return uninterrupted([&] { return ::recv(fd_.get(), buffer, size, MSG_DONTWAIT); });
  if (kind_ == Kind::careful && !ready_now()) {
    errno = EAGAIN;
    return -1;
  }
  return uninterrupted([&] { return ::read(fd_.get(), buffer, size); });
}

ssize_t SharedFd::write(std::string_view bytes) {
  if (kind_ == Kind::socket)
    return uninterrupted(
        [&] { return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL); });
  if (kind_ == Kind::careful) {
    if (!ready_now()) {
      errno = EAGAIN;
      return -1;
    }
    bytes = bytes.substr(0, is_terminal_ ? kTerminalChunk : kPipeChunk);
  }
  return uninterrupted([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
}

void SharedFd::async_wait(std::function<void()> ready) {
  if (kind_ == Kind::always_ready) return boost::asio::post(io_, std::move(ready));
  epoll_event event{};
  event.events = EPOLLONESHOT | (use_ == Use::read ? EPOLLIN : EPOLLOUT);
  ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_MOD, fd_.get(), &event);
  epoll_.async_wait(epoll_.wait_read, [ready = std::move(ready)](const auto& ec) {
    if (!ec) ready();
  });
}

}  // namespace hvdrun
