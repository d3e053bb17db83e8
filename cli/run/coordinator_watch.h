// The coordinator is hvdrun's child: while it is stopped (SIGSTOP) nobody else would notice,
// because agents of this machine do not wait for its word.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/stop_clock.h"

namespace hvdrun {

class CoordinatorWatch {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> say;   // a line for the user
    std::function<void(const std::string&)> over;  // stopped for the lease, in words
  };
  // Blocks SIGCHLD in this thread (open_child_signals).
  CoordinatorWatch(boost::asio::io_context& io, pid_t coordinator, std::chrono::milliseconds lease,
                   Callbacks callbacks);

 private:
  void wait();
  void look();

  pid_t coordinator_;
  StopClock clock_;
  Callbacks callbacks_;
  boost::asio::posix::stream_descriptor signals_;
  boost::asio::steady_timer timer_;
};

}  // namespace hvdrun
