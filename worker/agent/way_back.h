// An agent's way to the coordinator and the viewer: over TLS at one of the addresses that it was
// told, or, when it reaches none, through the ssh channel that opened its host. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/net/tls_psk.h"
#include "common/wire/base_messages.h"
#include "common/wire/relay.h"

namespace hvdrun {

class WayBack {
 public:
  // `bootstrap` outlives this. `on_lost`: the ssh channel ended, or brought what makes no sense.
  WayBack(boost::asio::io_context& io, const Bootstrap& bootstrap, std::function<void()> on_lost);

  // For the role of an agent (control) or of its output. A fault when there is no way at all. Who
  // answered and does not hold the job's key is told to the user where that made a difference.
  void open(Role role, OnStream on_stream);
  // For the user, after a fault of open(): what was tried, and what became of it.
  std::string why_not(std::error_code ec) const;
  // Bytes that have come through the guard.
  void feed(std::string_view bytes);
  // The address of this host, as far as its connection to the coordinator tells: "" on no network.
  std::string own_address(const std::string& local_ip) const;

 private:
  void start_relay();
  void open_relayed(Role role, OnStream on_stream);
  void tell_of_strangers() const;

  boost::asio::io_context& io_;
  const Bootstrap& bootstrap_;
  std::function<void()> on_lost_;
  std::shared_ptr<TlsContext> tls_;
  std::vector<std::pair<std::string, std::error_code>> failed_;  // addresses, of the last open()
  boost::asio::posix::stream_descriptor stdout_;
  std::string writing_;
  std::unique_ptr<Relay> relay_;  // once none of the addresses could be reached
};

}  // namespace hvdrun
