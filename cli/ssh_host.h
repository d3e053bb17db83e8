// A host opened by the ssh client: a shell there that becomes the host's guard. The client's stdin
// is the lease, as the pipe of a local guard is: closing it, or the client's end, ends everything
// there.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "cli/remote_start.h"
#include "common/process.h"

namespace hvdrun {

class SshHost {
 public:
  struct Request {
    std::vector<std::string> argv;  // of the client; argv[0] is searched for in PATH
    std::shared_ptr<const AgentImage> agent;
    std::string job;  // the frame for the guard
  };

  SshHost(boost::asio::io_context& io, Request request);
  SshHost(const SshHost&) = delete;
  SshHost& operator=(const SshHost&) = delete;

  struct Callbacks {
    std::function<void()> on_stage;  // another stage has begun
    // A line on stderr once the guard runs there; until then they are the reason of a failure.
    std::function<void(std::string)> on_line;
    // What comes on stdout once the guard runs there; empty: its end.
    std::function<void(std::string_view)> on_bytes;
  };

  std::error_code start(Callbacks callbacks);
  // Bytes for the guard's stdin, once it runs. `done` when they are written; one at a time.
  void send(std::string bytes, std::function<void()> done);

  Process& client() { return client_; }
  RemoteStart::Stage stage() const { return remote_.stage(); }
  bool started() const { return stage() == RemoteStart::Stage::start; }
  // What the client and the shell said last, one line; empty: nothing.
  std::string last_words() const;
  // Everything on the host ends.
  void close_lease();
  // What is still in stderr, when the client has ended.
  void drain();

 private:
  void read_stdout();
  void read_stderr();
  void take_stderr(std::string_view bytes);
  void write(std::string_view bytes);

  boost::asio::io_context& io_;
  Request request_;
  Process client_;
  RemoteStart remote_;
  boost::asio::posix::stream_descriptor stdin_;
  boost::asio::posix::stream_descriptor stdout_;
  boost::asio::posix::stream_descriptor stderr_;
  Callbacks callbacks_;
  std::string sending_;
  std::string line_;
  std::deque<std::string> words_;
  char out_buffer_[16384];
  char err_buffer_[1024];
};

}  // namespace hvdrun
