#include "cli/output/input_source.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <signal.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hvdrun {
namespace {

// Until a job in the background looks whether it has been brought to the foreground.
constexpr std::chrono::milliseconds kBackgroundPause{500};

}  // namespace

InputSource::InputSource(boost::asio::io_context& io, int fd,
                         const std::vector<std::uint32_t>& ranks,
                         std::function<void(const Input&)> send,
                         std::function<void(const std::string&)> on_trouble)
    : terminal_(fd),
      fd_(io, fd, SharedFd::Use::read),
      send_(std::move(send)),
      on_trouble_(std::move(on_trouble)),
      timer_(io) {
  for (const std::uint32_t rank : ranks) credit_[rank] = 0;
  if (fd_.is_terminal()) ::signal(SIGTTIN, SIG_IGN);
}

void InputSource::credit(const InputCredit& message) {
  const auto rank = credit_.find(message.rank);
  if (rank == credit_.end()) return;
  rank->second += message.bytes;
  schedule();
}

void InputSource::closed(std::uint32_t rank) {
  // It may have been the one that the others waited for.
  if (credit_.erase(rank) > 0) schedule();
}

bool InputSource::in_background() const {
  return fd_.is_terminal() && ::tcgetpgrp(terminal_) != ::getpgrp();
}

void InputSource::schedule() {
  if (waiting_ || ended_ || credit_.empty()) return;
  if (std::any_of(credit_.begin(), credit_.end(),
                  [](const auto& rank) { return rank.second == 0; }))
    return;
  if (!fd_.is_open()) return end();
  if (in_background()) return retry_later();
  waiting_ = true;
  fd_.async_wait([this] {
    waiting_ = false;
    read();
  });
}

void InputSource::read() {
  if (credit_.empty()) return;
  if (in_background()) return retry_later();
  std::size_t size = buffer_.size();
  for (const auto& [rank, left] : credit_) size = std::min(size, left);
  const ssize_t got = fd_.read(buffer_.data(), size);
  if (got < 0 && errno == EAGAIN) return schedule();
  if (got < 0 && errno == EIO && in_background()) return retry_later();
  if (got < 0) on_trouble_("stdin: " + std::system_category().message(errno));
  if (got <= 0) return end();
  for (auto& [rank, left] : credit_) {
    left -= static_cast<std::size_t>(got);
    send_({rank, false, std::string(buffer_.data(), static_cast<std::size_t>(got))});
  }
  schedule();
}

void InputSource::retry_later() {
  waiting_ = true;
  timer_.expires_after(kBackgroundPause);
  timer_.async_wait([this](const auto& ec) {
    if (ec) return;
    waiting_ = false;
    schedule();
  });
}

void InputSource::end() {
  ended_ = true;
  for (const auto& [rank, left] : credit_) send_({rank, true, {}});
}

}  // namespace hvdrun
