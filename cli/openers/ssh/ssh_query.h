// Asks the ssh client how it would reach a host (`ssh -G`), which resolves its configuration and
// connects to nobody. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/unique_fd.h"
#include "common/process/process.h"

namespace hvdrun {

class SshQuery {
 public:
  // Its output; nothing when it failed, said too much or took too long.
  using Handler = std::function<void(std::optional<std::string>)>;

  explicit SshQuery(boost::asio::io_context& io);
  ~SshQuery() { cancel(); }
  SshQuery(const SshQuery&) = delete;
  SshQuery& operator=(const SshQuery&) = delete;

  // An error: there is no such client, and nothing is called.
  std::error_code start(const std::vector<std::string>& argv, Handler handler);
  // Nothing is called any more. To be destroyed only when the loop has run since.
  void cancel();
  // The client's, until it is reaped; then -1.
  pid_t pid() const { return client_.pid; }

 private:
  void read();
  void watch_exit();
  void finish_if_done();

  boost::asio::posix::stream_descriptor out_;
  boost::asio::posix::stream_descriptor exit_;  // on the client's pidfd
  boost::asio::steady_timer deadline_;
  Process client_;
  Handler handler_;
  UniqueFd err_;
  std::string text_;
  bool all_read_ = false;
  bool good_ = true;
  char buffer_[4096];
};

}  // namespace hvdrun
