// A host opened by a program on this machine: an ssh client, srun, or what the user names in their
// place. Its stdin, stdout and stderr are those of the shell there, its stdin the lease.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "cli/openers/client_process.h"
#include "cli/openers/remote_host.h"
#include "common/process/process.h"

namespace hvdrun {

class ClientHost : public RemoteHost {
 public:
  void start() override;
  void send(std::string bytes, std::function<void()> done) override;
  void close_lease() override;
  void give_up() override;
  void release() override;
  pid_t client() const override { return client_.pid; }

 protected:
  ClientHost(boost::asio::io_context& io, ClientCommand command, Request request,
             Callbacks callbacks);

  void write(std::string_view bytes) override;
  // The meaning of it that the client has ended so.
  virtual End end_of(const ExitStatus& status) const = 0;
  // It has no session yet, and is not to have one.
  virtual void call_off();

  const std::string& program() const { return command_.argv.front(); }
  // Nothing happens when it has ended.
  void signal_client(int signal);
  // Readable when it has ended; -1: it has, and was reaped, or was never started.
  int client_pidfd() const { return client_.pidfd.get(); }

 private:
  std::error_code spawn_client();
  void read_stdout();
  void read_stderr();
  // Each takes what is there now. False: nothing more comes.
  bool take_stdout();
  bool take_stderr();
  void watch_client();

  boost::asio::io_context& io_;
  const ClientCommand command_;
  Process client_;
  std::optional<boost::asio::posix::stream_descriptor> exit_;  // on the client's pidfd
  boost::asio::posix::stream_descriptor stdin_;
  boost::asio::posix::stream_descriptor stdout_;
  boost::asio::posix::stream_descriptor stderr_;
  std::string sending_;
  char out_buffer_[16384];
};

}  // namespace hvdrun
