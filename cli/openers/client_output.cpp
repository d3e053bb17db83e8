#include "cli/openers/client_output.h"

#include <cerrno>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>

#include "common/base/printable.h"
#include "common/process/signal_words.h"

namespace hvdrun {
namespace {

// From its end to the end of its output, which a process that it has started may hold open.
constexpr std::chrono::milliseconds kHeld{200};
// The last bytes of its stderr are kept.
constexpr std::size_t kErrorBytes = 4096;
constexpr std::size_t kShownBytes = 200;

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const auto begin = text.rfind('\n');
  if (begin != text.npos) text.erase(0, begin + 1);
  return printable(text.substr(0, kShownBytes));
}

std::string seconds_text(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

ClientOutput::ClientOutput(boost::asio::io_context& io)
    : out_(io), err_(io), exit_(io), deadline_(io) {}

void ClientOutput::cancel() {
  handler_ = nullptr;
  // The driver reaps it when it ends.
  signal_client_tree(client_, SIGKILL);
}

std::error_code ClientOutput::start(const ClientCommand& command, Limits limits, Handler handler) {
  ClientPipes pipes;
  if (const std::error_code ec = start_client(command, client_, pipes)) return ec;
  UniqueFd pidfd(::dup(client_.pidfd.get()));
  if (!pidfd) {
    const std::error_code ec(errno, std::system_category());
    signal_client_tree(client_, SIGKILL);
    return ec;
  }
  exit_.assign(pidfd.release());
  handler_ = std::move(handler);
  limits_ = limits;
  out_.end.assign(pipes.out.release());
  err_.end.assign(pipes.err.release());
  deadline_.expires_after(limits.time);
  deadline_.async_wait([this](const auto& ec) {
    if (!ec) fail("did not end within " + seconds_text(limits_.time));
  });
  watch_exit();
  read(out_);
  read(err_);
  return {};
}

void ClientOutput::fail(const std::string& why) {
  if (answer_.fault.empty()) answer_.fault = why;
  signal_client_tree(client_, SIGKILL);
  // A process that it has started may still hold the pipes.
  close(out_);
  close(err_);
}

void ClientOutput::close(Pipe& pipe) {
  boost::system::error_code ignored;
  pipe.end.close(ignored);
}

void ClientOutput::watch_exit() {
  exit_.async_wait(exit_.wait_read, [this](const auto& ec) {
    if (ec) return;
    if (!is_over(client_)) return watch_exit();
    ExitStatus status;
    // The group has its number until it is reaped.
    if (limits_.whole_group) ::kill(-client_.pid, SIGKILL);
    try_reap(client_, status);
    client_ = {};
    if (answer_.fault.empty() && status.signaled)
      answer_.fault = "was killed by " + signal_text(static_cast<std::uint32_t>(status.value));
    else if (answer_.fault.empty() && status.value != 0)
      answer_.fault = "exited with code " + std::to_string(status.value);
    deadline_.expires_after(kHeld);
    deadline_.async_wait([this](const auto& late) {
      if (late) return;
      answer_.held = !out_.all_read;
      close(out_);
      close(err_);
    });
    finish_if_done();
  });
}

void ClientOutput::read(Pipe& pipe) {
  pipe.end.async_read_some(
      boost::asio::buffer(pipe.buffer), [this, &pipe](const auto& ec, std::size_t size) {
        pipe.text.append(pipe.buffer.data(), size);
        if (&pipe == &err_ && err_.text.size() > kErrorBytes)
          err_.text.erase(0, err_.text.size() - kErrorBytes);
        const bool too_much = &pipe == &out_ && pipe.text.size() > limits_.bytes;
        if (!ec && !too_much) return read(pipe);
        pipe.all_read = true;
        if (too_much) fail("has said more than " + std::to_string(limits_.bytes >> 10U) + " KiB");
        finish_if_done();
      });
}

void ClientOutput::finish_if_done() {
  if (!out_.all_read || !err_.all_read || client_.pid > 0) return;
  deadline_.cancel();
  close(out_);
  close(err_);
  boost::system::error_code ignored;
  exit_.close(ignored);
  if (!handler_) return;
  if (const std::string said = last_line(err_.text); !answer_.fault.empty() && !said.empty())
    answer_.fault += ": " + said;
  answer_.text = std::move(out_.text);
  std::exchange(handler_, {})(std::move(answer_));
}

}  // namespace hvdrun
