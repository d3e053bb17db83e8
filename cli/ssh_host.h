// A host opened by a program: the ssh client, or what the user names in its place. Its stdin is the
// lease.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "cli/remote_host.h"
#include "common/process.h"

namespace hvdrun {

class SshHost : public RemoteHost {
 public:
  // `argv` of the program; argv[0] is searched for in PATH. `is_ssh`: its exit code 255 is ssh's
  // own.
  SshHost(boost::asio::io_context& io, std::vector<std::string> argv, bool is_ssh, Request request,
          Callbacks callbacks);

  void start() override;
  void send(std::string bytes, std::function<void()> done) override;
  void close_lease() override;
  void give_up() override;

 protected:
  void write(std::string_view bytes) override;

 private:
  std::error_code spawn_client();
  void read_stdout();
  void read_stderr();
  void drain_stderr();
  void watch_client();
  void on_client_ended(const ExitStatus& status);

  boost::asio::io_context& io_;
  const std::vector<std::string> argv_;
  const bool is_ssh_;
  Process client_;
  std::optional<boost::asio::posix::stream_descriptor> exit_;  // on the client's pidfd
  boost::asio::posix::stream_descriptor stdin_;
  boost::asio::posix::stream_descriptor stdout_;
  boost::asio::posix::stream_descriptor stderr_;
  std::string sending_;
  char out_buffer_[16384];
  char err_buffer_[1024];
};

}  // namespace hvdrun
