#include "cli/console.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>
#include <limits.h>

namespace hvdrun {
namespace {

// A writable pipe takes PIPE_BUF bytes without blocking; of a terminal's room poll() says less.
constexpr std::size_t kPipeChunk = PIPE_BUF;
constexpr std::size_t kTerminalChunk = 256;
// Then the other events get their turn.
constexpr std::size_t kBytesPerTurn = 256U << 10;

}  // namespace

Console::Console(boost::asio::io_context& io, int fd, std::function<void(int)> on_broken)
    : io_(io), fd_(io), on_broken_(std::move(on_broken)), is_terminal_(::isatty(fd) == 1) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) {
    broken_ = true;  // started with the descriptor closed: nobody wants the output
    return;
  }
  fd_.assign(copy);
}

void Console::write(std::string text, std::function<void()> written) {
  if (broken_ || text.empty()) {
    if (written) boost::asio::post(io_, std::move(written));
    return;
  }
  queue_.push_back({std::move(text), 0, std::move(written)});
  schedule();
}

bool Console::writable_now() const {
  // Regular files and /dev/null, which epoll does not know, are always writable here.
  pollfd wait{const_cast<Console*>(this)->fd_.native_handle(), POLLOUT, 0};
  return ::poll(&wait, 1, 0) == 1;
}

void Console::schedule() {
  if (scheduled_ || queue_.empty()) return;
  scheduled_ = true;
  if (writable_now()) {
    boost::asio::post(io_, [this] { pump(); });
  } else {
    fd_.async_wait(fd_.wait_write, [this](const auto& ec) {
      if (!ec) pump();
    });
  }
}

void Console::pump() {
  scheduled_ = false;
  const std::size_t chunk = is_terminal_ ? kTerminalChunk : kPipeChunk;
  for (std::size_t total = 0; !queue_.empty() && total < kBytesPerTurn && writable_now();) {
    Item& item = queue_.front();
    const std::size_t size = std::min(chunk, item.text.size() - item.done);
    const ssize_t sent = ::write(fd_.native_handle(), item.text.data() + item.done, size);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;  // somebody else made it non-blocking
      const int error = errno;
      broken_ = true;
      for (Item& lost : std::exchange(queue_, {}))
        if (lost.written) boost::asio::post(io_, std::move(lost.written));
      return on_broken_(error);
    }
    item.done += static_cast<std::size_t>(sent);
    total += static_cast<std::size_t>(sent);
    if (item.done < item.text.size()) continue;
    if (item.written) boost::asio::post(io_, std::move(item.written));
    queue_.pop_front();
  }
  schedule();
}

}  // namespace hvdrun
