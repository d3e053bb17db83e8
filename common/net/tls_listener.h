// Accepts TCP connections and makes the TLS-PSK handshake on each, for the coordinator and for the
// viewer. Strangers cost little: so many handshakes at once, so long each. Whoever comes meanwhile
// waits.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/unique_fd.h"
#include "common/net/byte_stream.h"
#include "common/net/tls_psk.h"

namespace hvdrun {

class TlsListener {
 public:
  using OnPeer = std::function<void(std::unique_ptr<ByteStream>)>;
  using OnTrouble = std::function<void(const std::string& what)>;

  // `socket` listens already. `on_peer` gets every connection whose handshake succeeded,
  // `on_trouble` a line for the user about those that did not. It gets one about accept itself,
  // too, when that fails: out of descriptors, say. Accept is tried again after a pause, and there
  // is no further line until it works again. Neither is called after destruction, and the listener
  // may be destroyed in both.
  TlsListener(boost::asio::io_context& io, UniqueFd socket, PskKey key, OnPeer on_peer,
              OnTrouble on_trouble);
  ~TlsListener();
  TlsListener(const TlsListener&) = delete;
  TlsListener& operator=(const TlsListener&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hvdrun
