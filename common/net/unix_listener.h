// Listens on a Unix socket in the abstract name space, which leaves no file behind, and lets in the
// same user (and root) only: such names have no permissions of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "common/net/byte_stream.h"

namespace hvdrun {

// "@name" is in the abstract name space; anything else is a path.
boost::asio::local::stream_protocol::endpoint unix_endpoint(const std::string& name);

class UnixListener {
 public:
  // `peer`: the process at the other end, by the kernel's word; 0: one that has no number here.
  using OnPeer = std::function<void(std::unique_ptr<ByteStream>, pid_t peer)>;

  // Throws boost::system::system_error when the name is taken. A failing accept (out of
  // descriptors) is tried again after a pause; `on_trouble` gets one line of it until it works
  // again. Neither is called after destruction.
  UnixListener(boost::asio::io_context& io, const std::string& name, OnPeer on_peer,
               std::function<void(const std::string&)> on_trouble = {});
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hvdrun
