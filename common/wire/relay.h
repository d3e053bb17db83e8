// Carries streams between local sockets and a channel of bytes (RelayMux), for connections that can
// be made in no other way. One thread. What is said on the streams is not looked at: TLS goes from
// end to end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <boost/asio/io_context.hpp>

#include "common/base/unique_fd.h"
#include "common/wire/relay_messages.h"

namespace hvdrun {

// The words that an agent writes to its stdout before the first frame of a relay, on a line of its
// own.
inline constexpr std::string_view kRelayLine = "hvdrun: relay\n";

class Relay {
 public:
  struct Callbacks {
    // Bytes for the channel; `done` when it takes more. Never two at once.
    std::function<void(std::string bytes, std::function<void()> done)> write;
    // The other side has opened a stream: attach() what it leads to. Empty: it must not.
    std::function<void(RelayStream)> on_open;
    // Once: what the channel brings makes no sense. Nothing is carried any more.
    std::function<void(std::error_code)> on_fault;
  };

  Relay(boost::asio::io_context& io, Callbacks callbacks);
  // Closes all sockets; no callback comes after it.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Opens a stream and returns its near end, a connected socket. Throws std::system_error.
  UniqueFd open(RelayStream stream);
  // A connected socket for a stream that the other side has opened; none: it cannot be had, and the
  // stream ends.
  void attach(RelayStream stream, UniqueFd socket);
  // Bytes that the channel has brought.
  void feed(std::string_view bytes);
  // The channel has ended: what has come is still handed on.
  void end();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hvdrun
