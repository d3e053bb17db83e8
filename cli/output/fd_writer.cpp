#include "cli/output/fd_writer.h"

#include <cerrno>
#include <limits>
#include <utility>

#include <boost/asio/post.hpp>

namespace hvdrun {
namespace {

// Then the other events get their turn.
constexpr std::size_t kBytesPerTurn = 256U << 10;

}  // namespace

FdWriter::FdWriter(boost::asio::io_context& io, int fd, std::function<void()> on_progress,
                   std::function<void(int)> on_broken)
    : io_(io),
      fd_(io, fd, SharedFd::Use::write),
      on_progress_(std::move(on_progress)),
      on_broken_(std::move(on_broken)),
      patience_timer_(io),
      // Started with the descriptor closed: nobody wants the output.
      broken_(!fd_.is_open()) {}

void FdWriter::write(std::string_view text) {
  if (text.empty()) return;
  // Bytes that are written go before the buffer grows: it is never longer than twice what waits.
  if (done_ > buffer_.size() / 2) {
    buffer_.erase(0, done_);
    done_ = 0;
  }
  if (!broken_) buffer_ += text;
  schedule();
}

void FdWriter::abandon() {
  broken_ = true;
  buffer_.clear();
  done_ = 0;
  // A wait that is under way would never end.
  boost::asio::post(io_, [this] { on_progress_(); });
}

void FdWriter::schedule() {
  if (std::exchange(scheduled_, true)) return;
  boost::asio::post(io_, [this] { pump(); });
}

void FdWriter::flush() {
  write_some(std::numeric_limits<std::size_t>::max());
  if (waiting() > 0) schedule();
}

void FdWriter::end_with(std::string_view text) {
  if (broken_) return;
  buffer_ = (mid_line_ ? "\n" : "") + std::string(text);
  done_ = 0;
  flush();
}

void FdWriter::hurry(std::chrono::milliseconds patience) {
  if (patience >= patience_) return;
  patience_ = patience;
  watch_progress();
}

void FdWriter::watch_progress() {
  patience_timer_.expires_after(patience_);
  patience_timer_.async_wait([this, before = written_](const auto& ec) {
    if (ec) return;
    if (waiting() > 0 && written_ == before) return abandon();
    watch_progress();
  });
}

void FdWriter::write_some(std::size_t limit) {
  for (std::size_t total = 0; done_ < buffer_.size() && total < limit;) {
    const ssize_t sent = fd_.write(std::string_view(buffer_).substr(done_));
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      const int error = errno;
      abandon();
      on_broken_(error);
      break;
    }
    done_ += static_cast<std::size_t>(sent);
    total += static_cast<std::size_t>(sent);
    written_ += static_cast<std::uint64_t>(sent);
    if (sent > 0) mid_line_ = buffer_[done_ - 1] != '\n';
  }
  if (done_ == buffer_.size()) {
    buffer_.clear();
    done_ = 0;
  }
}

void FdWriter::pump() {
  write_some(kBytesPerTurn);
  scheduled_ = false;
  on_progress_();
  if (waiting() == 0 || scheduled_) return;
  scheduled_ = true;
  fd_.async_wait([this] { pump(); });
}

}  // namespace hvdrun
