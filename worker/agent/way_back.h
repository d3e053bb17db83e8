// How an agent reaches the coordinator and the viewer: over TLS at one of the addresses that it was
// told, or, when it reaches none, through the ssh channel that opened its host. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/base_messages.h"
#include "common/relay.h"
#include "common/tls_psk.h"

namespace hvdrun {

class WayBack {
 public:
  // `bootstrap` outlives this. `on_lost`: the ssh channel ended, or brought what makes no sense.
  WayBack(boost::asio::io_context& io, const Bootstrap& bootstrap, std::function<void()> on_lost);

  // For the role of an agent (control) or of its output. A fault when there is no way at all.
  void open(Role role, OnStream on_stream);
  // What has come through the guard.
  void feed(std::string_view bytes);
  // The address of this host, as far as its connection to the coordinator tells: "" on no network.
  std::string own_address(const std::string& local_ip) const;

 private:
  void start_relay();
  void open_relayed(Role role, OnStream on_stream);

  boost::asio::io_context& io_;
  const Bootstrap& bootstrap_;
  std::function<void()> on_lost_;
  std::shared_ptr<TlsContext> tls_;
  boost::asio::posix::stream_descriptor stdout_;
  std::string writing_;
  std::unique_ptr<Relay> relay_;  // once none of the addresses could be reached
};

}  // namespace hvdrun
