// The guard of a host that is this machine, hvdrun's child: its lines on stderr, its end, and its
// lease.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "cli/run/guard_words.h"
#include "cli/run/local_transport.h"

namespace hvdrun {

class LocalGuard {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> line;  // on stderr, without its end
    // Once, after all lines. A reason where it did not leave as it should; empty otherwise.
    std::function<void(const std::string& why)> ended;
  };

  // Throws std::system_error without a descriptor.
  LocalGuard(boost::asio::io_context& io, OpenHost open, Callbacks callbacks);

  // Everything on the host ends.
  void close_lease() { open_.lease.reset(); }
  pid_t pid() const { return open_.guard.pid; }

 private:
  void wait();

  OpenHost open_;
  Callbacks callbacks_;
  GuardWords words_;
  boost::asio::posix::stream_descriptor exit_;  // its pidfd
};

}  // namespace hvdrun
