#include "cli/ssh_host.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "common/printable.h"
#include "common/unique_fd.h"

extern char** environ;

namespace hvdrun {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMaxWords = 2;  // lines kept of what a client says before it fails
constexpr std::size_t kMaxLine = 400;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

std::error_code make_pipe(Pipe& made) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return {errno, std::system_category()};
  made.read.reset(fds[0]);
  made.write.reset(fds[1]);
  return {};
}

}  // namespace

SshHost::SshHost(asio::io_context& io, Request request)
    : io_(io), request_(std::move(request)), stdin_(io_), stdout_(io_), stderr_(io_) {}

std::error_code SshHost::start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  SpawnOptions options;
  options.argv = request_.argv;
  const char* const path = ::secure_getenv("PATH");
  if (const std::error_code ec =
          find_program(options.argv.front(),
                       path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", "/", options.path))
    return ec;
  Pipe in;
  Pipe out;
  Pipe err;
  for (Pipe* pipe : {&in, &out, &err})
    if (const std::error_code ec = make_pipe(*pipe)) return ec;
  for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.new_session = true;  // the terminal's signals are for the driver alone
  options.fds = {{in.read.get(), 0}, {out.write.get(), 1}, {err.write.get(), 2}};
  if (const std::error_code ec = spawn(options, client_)) return ec;
  stdin_.assign(in.write.release());
  stdout_.assign(out.read.release());
  stderr_.assign(err.read.release());
  read_stdout();
  read_stderr();
  return {};
}

void SshHost::read_stdout() {
  stdout_.async_read_some(asio::buffer(out_buffer_), [this](const auto& ec, std::size_t size) {
    if (ec) return started() ? callbacks_.on_bytes({}) : void();
    std::string_view bytes(out_buffer_, size);
    if (started()) {
      callbacks_.on_bytes(bytes);
      return read_stdout();
    }
    const RemoteStart::Stage before = stage();
    for (auto send = remote_.feed(bytes); send != RemoteStart::Send::nothing;
         send = remote_.feed({})) {
      write(send == RemoteStart::Send::agent ? request_.agent->bytes : request_.job);
    }
    if (stage() != before) callbacks_.on_stage();
    read_stdout();
  });
}

void SshHost::read_stderr() {
  stderr_.async_read_some(asio::buffer(err_buffer_), [this](const auto& ec, std::size_t size) {
    if (ec) return;
    take_stderr({err_buffer_, size});
    read_stderr();
  });
}

void SshHost::take_stderr(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n' && c != '\r') {
      if (line_.size() < kMaxLine) line_ += c;
      continue;
    }
    if (line_.empty()) continue;
    std::string line = printable(std::exchange(line_, {}));
    if (started()) {
      callbacks_.on_line(std::move(line));
    } else {
      words_.push_back(std::move(line));
      if (words_.size() > kMaxWords) words_.pop_front();
    }
  }
}

void SshHost::drain() {
  if (!stderr_.is_open()) return;
  char buffer[1024];
  boost::system::error_code ec;
  stderr_.non_blocking(true, ec);
  while (!ec) {
    const std::size_t size = stderr_.read_some(asio::buffer(buffer), ec);
    if (!ec) take_stderr({buffer, size});
  }
  take_stderr("\n");
}

std::string SshHost::last_words() const {
  std::string text;
  for (const std::string& line : words_) text += (text.empty() ? "" : "; ") + line;
  return text;
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
  if (stage() == RemoteStart::Stage::connect && client_.pid > 0) send_signal(client_, SIGTERM);
}

}  // namespace hvdrun
