#include "cli/openers/ssh/ssh_query.h"

#include <cerrno>
#include <chrono>
#include <signal.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>

#include "cli/openers/client_process.h"
#include "common/base/limits.h"

namespace hvdrun {
namespace {

// A configuration may run commands (Match exec) and look names up.
constexpr std::chrono::seconds kQueryLimit{10};

}  // namespace

SshQuery::SshQuery(boost::asio::io_context& io) : out_(io), exit_(io), deadline_(io) {}

void SshQuery::cancel() {
  handler_ = nullptr;
  // The driver reaps it when it ends.
  signal_client_tree(client_, SIGKILL);
}

std::error_code SshQuery::start(const std::vector<std::string>& argv, Handler handler) {
  ClientPipes pipes;
  if (const std::error_code ec = start_client({.argv = argv}, client_, pipes)) return ec;
  UniqueFd pidfd(::dup(client_.pidfd.get()));
  if (!pidfd) {
    const std::error_code ec(errno, std::system_category());
    signal_client_tree(client_, SIGKILL);
    return ec;
  }
  exit_.assign(pidfd.release());
  handler_ = std::move(handler);
  // Its words are not needed: what is wrong with the configuration the client will say again when
  // it connects.
  out_.assign(pipes.out.release());
  err_ = std::move(pipes.err);
  deadline_.expires_after(kQueryLimit);
  deadline_.async_wait([this](const auto& ec) {
    if (ec) return;
    good_ = false;
    signal_client_tree(client_, SIGKILL);
    // A process that it has started may still hold the pipe.
    boost::system::error_code ignored;
    out_.close(ignored);
  });
  watch_exit();
  read();
  return {};
}

void SshQuery::watch_exit() {
  exit_.async_wait(exit_.wait_read, [this](const auto& ec) {
    if (ec) return;
    if (!is_over(client_)) return watch_exit();
    ExitStatus status;
    try_reap(client_, status);
    client_ = {};
    good_ = good_ && !status.signaled && status.value == 0;
    finish_if_done();
  });
}

void SshQuery::read() {
  out_.async_read_some(boost::asio::buffer(buffer_), [this](const auto& ec, std::size_t size) {
    text_.append(buffer_, size);
    if (!ec && text_.size() <= limits::kMaxSshConfig) return read();
    if (!ec) good_ = false;
    all_read_ = true;
    finish_if_done();
  });
}

void SshQuery::finish_if_done() {
  if (!all_read_ || client_.pid > 0) return;
  deadline_.cancel();
  boost::system::error_code ignored;
  out_.close(ignored);
  exit_.close(ignored);
  err_.reset();
  if (!handler_) return;
  auto answer = good_ ? std::optional(std::move(text_)) : std::nullopt;
  std::exchange(handler_, {})(std::move(answer));
}

}  // namespace hvdrun
