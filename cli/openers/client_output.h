// Runs a program to its end and takes what it says: `ssh -G`, which resolves the configuration and
// connects to nobody, or a script that lists hosts. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <system_error>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/openers/client_process.h"
#include "common/process/process.h"

namespace hvdrun {

class ClientOutput {
 public:
  struct Answer {
    std::string text;   // its stdout
    std::string fault;  // why that is not to be used: "exited with code 1: no pods"; empty: it is
    bool held = false;  // a process that it has left behind holds its stdout open
  };
  using Handler = std::function<void(Answer)>;
  struct Limits {
    std::chrono::milliseconds time{};
    std::size_t bytes = 0;
    bool whole_group = false;  // what it leaves behind in its process group ends with it
  };

  explicit ClientOutput(boost::asio::io_context& io);
  ~ClientOutput() { cancel(); }
  ClientOutput(const ClientOutput&) = delete;
  ClientOutput& operator=(const ClientOutput&) = delete;

  // An error: there is no such program, and nothing is called.
  std::error_code start(const ClientCommand& command, Limits limits, Handler handler);
  // Nothing is called any more. To be destroyed only when the loop has run since.
  void cancel();
  // The program's, until it is reaped; then -1.
  pid_t pid() const { return client_.pid; }

 private:
  struct Pipe {
    explicit Pipe(boost::asio::io_context& io) : end(io) {}
    boost::asio::posix::stream_descriptor end;
    std::string text;
    std::array<char, 4096> buffer{};
    bool all_read = false;
  };

  void read(Pipe& pipe);
  void watch_exit();
  void close(Pipe& pipe);
  void fail(const std::string& why);
  void finish_if_done();

  Pipe out_;
  Pipe err_;
  boost::asio::posix::stream_descriptor exit_;  // on the program's pidfd
  boost::asio::steady_timer deadline_;
  Process client_;
  Limits limits_;
  Handler handler_;
  Answer answer_;
};

}  // namespace hvdrun
