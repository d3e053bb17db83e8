#include "cli/ssh_host.h"

#include <cstdlib>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "cli/client_process.h"
#include "cli/ssh_command.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

constexpr int kSshFailed = 255;  // the client's own code

}  // namespace

SshHost::SshHost(asio::io_context& io, std::vector<std::string> argv, bool is_ssh, Request request,
                 Callbacks callbacks)
    : RemoteHost(std::move(request), std::move(callbacks)),
      io_(io),
      argv_(std::move(argv)),
      is_ssh_(is_ssh),
      stdin_(io_),
      stdout_(io_),
      stderr_(io_) {}

void SshHost::start() {
  if (const std::error_code ec = spawn_client()) {
    End end;
    end.why = argv_.front() + ": " + ec.message();
    asio::post(io_, [this, end = std::move(end)] { callbacks_.ended(end); });
  }
}

std::error_code SshHost::spawn_client() {
  ClientPipes pipes;
  if (const std::error_code ec = start_client(argv_, client_, pipes)) return ec;
  stdin_.assign(pipes.in.release());
  stdout_.assign(pipes.out.release());
  stderr_.assign(pipes.err.release());
  read_stdout();
  read_stderr();
  watch_client();
  return {};
}

void SshHost::read_stdout() {
  stdout_.async_read_some(asio::buffer(out_buffer_), [this](const auto& ec, std::size_t size) {
    if (ec) return on_stdout_end();
    on_stdout({out_buffer_, size});
    read_stdout();
  });
}

void SshHost::read_stderr() {
  stderr_.async_read_some(asio::buffer(err_buffer_), [this](const auto& ec, std::size_t size) {
    if (ec) return;
    on_stderr({err_buffer_, size});
    read_stderr();
  });
}

// What is still in there when the client has ended.
void SshHost::drain_stderr() {
  char buffer[1024];
  boost::system::error_code ec;
  stderr_.non_blocking(true, ec);
  while (!ec) {
    const std::size_t size = stderr_.read_some(asio::buffer(buffer), ec);
    if (!ec) on_stderr({buffer, size});
  }
  on_stderr("\n");
}

void SshHost::watch_client() {
  exit_.emplace(io_, ::dup(client_.pidfd.get()));
  exit_->async_wait(exit_->wait_read, [this](const auto& ec) {
    if (ec) return;
    ExitStatus status;
    try_reap(client_, status);
    exit_.reset();
    client_ = {};
    drain_stderr();
    on_client_ended(status);
  });
}

void SshHost::on_client_ended(const ExitStatus& status) {
  const std::string how = (status.signaled ? "was killed by signal " : "ended with code ") +
                          std::to_string(status.value);
  End end;
  if (!started()) {
    const std::string words = last_words();
    end.why = words.empty() ? argv_.front() + " " + how : words;
    end.worth_another_try = is_ssh_ && !shell_runs() && server_hung_up(words);
  } else if (status.signaled) {
    end.why = "its " + argv_.front() + " " + how;
  } else if (is_ssh_ && status.value == kSshFailed) {
    end.why = "the ssh connection to it broke";
  } else if (status.value != 0) {
    end.why = "its guard " + how;
  }
  callbacks_.ended(end);
}

// What is under way while another begins: the agent is written whole before the shell asks for the
// job, so there is never more than one.
void SshHost::write(std::string_view bytes) {
  if (!stdin_.is_open()) return;
  asio::async_write(stdin_, asio::buffer(bytes.data(), bytes.size()),
                    [](const auto& /*ec*/, std::size_t /*size*/) {
                      // A client that takes no more ends, and says why on stderr.
                    });
}

void SshHost::send(std::string bytes, std::function<void()> done) {
  if (!stdin_.is_open()) return;
  sending_ = std::move(bytes);
  asio::async_write(stdin_, asio::buffer(std::as_const(sending_)),
                    [done = std::move(done)](const auto& ec, std::size_t /*size*/) {
                      if (!ec) done();
                    });
}

void SshHost::close_lease() {
  boost::system::error_code ignored;
  if (stdin_.is_open()) stdin_.close(ignored);
  // Before its session exists, a client does not look at its stdin.
  if (!shell_runs() && client_.pid > 0) send_signal(client_, SIGTERM);
}

void SshHost::give_up() {
  if (client_.pid > 0) send_signal(client_, SIGKILL);
}

}  // namespace hvdrun
