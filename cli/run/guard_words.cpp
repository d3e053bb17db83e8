#include "cli/run/guard_words.h"

#include <utility>

#include <boost/asio/buffer.hpp>

#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxWords = 1024;  // bytes of a line

}  // namespace

GuardWords::GuardWords(boost::asio::io_context& io, UniqueFd pipe,
                       std::function<void(const std::string&)> line)
    : pipe_(io, pipe.release()), on_line_(std::move(line)) {
  boost::system::error_code ignored;
  pipe_.non_blocking(true, ignored);
  wait();
}

void GuardWords::wait() {
  pipe_.async_wait(pipe_.wait_read, [this](const auto& ec) {
    if (ec) return;
    const auto fault = read();
    if (!fault || fault == boost::asio::error::would_block) wait();
  });
}

boost::system::error_code GuardWords::read() {
  char buffer[4096];
  boost::system::error_code ec;
  const std::size_t size = pipe_.read_some(boost::asio::buffer(buffer), ec);
  if (!ec) take({buffer, size});
  return ec;
}

void GuardWords::drain() {
  while (!read()) {
  }
  take("\n");
}

void GuardWords::take(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n') {
      if (line_.size() < kMaxWords) line_ += c;
    } else if (const std::string line = std::exchange(line_, {}); !line.empty()) {
      on_line_(printable(line));
    }
  }
}

}  // namespace hvdrun
