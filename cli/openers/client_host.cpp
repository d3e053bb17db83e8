#include "cli/openers/client_host.h"

#include <cerrno>
#include <signal.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "common/base/fault_text.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// Reads in a row: whoever floods a pipe has to let others come in between.
constexpr int kTurns = 64;

}  // namespace

ClientHost::ClientHost(asio::io_context& io, ClientCommand command, Request request,
                       Callbacks callbacks)
    : RemoteHost(std::move(request), std::move(callbacks)),
      io_(io),
      command_(std::move(command)),
      stdin_(io_),
      stdout_(io_),
      stderr_(io_) {}

void ClientHost::start() {
  if (const std::error_code ec = spawn_client()) {
    End end;
    end.why = program() + ": " + fault_text(ec);
    asio::post(io_, [this, end = std::move(end)] { callbacks_.ended(end); });
  }
}

std::error_code ClientHost::spawn_client() {
  ClientPipes pipes;
  if (const std::error_code ec = start_client(command_, client_, pipes)) return ec;
  UniqueFd pidfd(::dup(client_.pidfd.get()));
  if (!pidfd) {
    const std::error_code ec(errno, std::system_category());
    signal_client_tree(client_, SIGKILL);
    return ec;
  }
  exit_.emplace(io_, pidfd.release());
  stdin_.assign(pipes.in.release());
  stdout_.assign(pipes.out.release());
  stderr_.assign(pipes.err.release());
  stdout_.non_blocking(true);
  stderr_.non_blocking(true);
  read_stdout();
  read_stderr();
  watch_client();
  return {};
}

// A read that is begun before there is something takes bytes ahead of its handler: the end of the
// client would come before them.
void ClientHost::read_stdout() {
  stdout_.async_wait(stdout_.wait_read, [this](const auto& ec) {
    if (!ec && take_stdout()) return read_stdout();
    on_stdout_end();
  });
}

bool ClientHost::take_stdout() {
  for (int turn = 0; turn < kTurns; ++turn) {
    boost::system::error_code ec;
    const std::size_t size = stdout_.read_some(asio::buffer(out_buffer_), ec);
    if (ec) return ec == asio::error::would_block;
    on_stdout({out_buffer_, size});
  }
  return true;
}

void ClientHost::read_stderr() {
  stderr_.async_wait(stderr_.wait_read, [this](const auto& ec) {
    if (!ec && take_stderr()) read_stderr();
  });
}

bool ClientHost::take_stderr() {
  char buffer[1024];
  for (int turn = 0; turn < kTurns; ++turn) {
    boost::system::error_code ec;
    const std::size_t size = stderr_.read_some(asio::buffer(buffer), ec);
    if (ec) return ec == asio::error::would_block;
    on_stderr({buffer, size});
  }
  return true;
}

void ClientHost::watch_client() {
  exit_->async_wait(exit_->wait_read, [this](const auto& ec) {
    if (ec) return;
    if (!is_over(client_)) return watch_client();
    ExitStatus status;
    try_reap(client_, status);
    exit_.reset();
    client_ = {};
    take_stdout();
    take_stderr();
    on_stderr("\n");
    callbacks_.ended(end_of(status));
  });
}

// No write is under way while another begins: the agent is written whole before the shell asks for
// the job, so there is never more than one.
void ClientHost::write(std::string_view bytes) {
  if (!stdin_.is_open()) return;
  asio::async_write(stdin_, asio::buffer(bytes.data(), bytes.size()),
                    [](const auto& /*ec*/, std::size_t /*size*/) {
                      // A client that takes no more ends, and says why on stderr.
                    });
}

void ClientHost::send(std::string bytes, std::function<void()> done) {
  if (!stdin_.is_open()) return;
  sending_ = std::move(bytes);
  asio::async_write(stdin_, asio::buffer(std::as_const(sending_)),
                    [done = std::move(done)](const auto& ec, std::size_t /*size*/) {
                      if (!ec) done();
                    });
}

void ClientHost::close_lease() {
  boost::system::error_code ignored;
  if (stdin_.is_open()) stdin_.close(ignored);
  // Before its session exists, a client does not look at its stdin.
  if (!shell_runs()) call_off();
}

// A process that the client has left behind may hold its pipes.
void ClientHost::release() {
  boost::system::error_code ignored;
  for (asio::posix::stream_descriptor* const end : {&stdin_, &stdout_, &stderr_})
    if (end->is_open()) end->close(ignored);
}

void ClientHost::give_up() { signal_client_tree(client_, SIGKILL); }

void ClientHost::call_off() { signal_client_tree(client_, SIGTERM); }

void ClientHost::signal_client(int signal) {
  if (client_.pid > 0) send_signal(client_, signal);
}

}  // namespace hvdrun
