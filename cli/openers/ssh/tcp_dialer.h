// Connects a socket to the first address of a host that answers, as the ssh client does it: one
// address after the other, all of them once a second for so many times (ConnectionAttempts), so
// long at most each time (ConnectTimeout). One thread.
#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/hosts/name_resolver.h"

namespace hvdrun {

// The machine is off or still boots, or nothing listens there yet.
bool may_pass(const boost::system::error_code& fault);

class TcpDialer {
 public:
  using Endpoint = boost::asio::ip::tcp::endpoint;
  // No error: the socket is connected. Else what became of the last address.
  using Handler = std::function<void(const boost::system::error_code&, const Endpoint&)>;

  // The socket must outlive this.
  TcpDialer(boost::asio::io_context& io, boost::asio::ip::tcp::socket& socket)
      : socket_(socket), timer_(io) {}

  // Once. `endpoints` has at least one; each address has its share of `limit`. The handler is
  // never called from within a call.
  void dial(NameResolver::Endpoints endpoints, std::chrono::milliseconds limit, int attempts,
            Handler handler);
  // Nobody is called any more. To be destroyed only when the loop has run since.
  void stop();

 private:
  void begin_attempt();
  void try_next();
  void on_tried(boost::system::error_code ec);

  boost::asio::ip::tcp::socket& socket_;
  boost::asio::steady_timer timer_;
  NameResolver::Endpoints endpoints_;
  std::chrono::milliseconds limit_{};
  int attempts_left_ = 0;
  Handler handler_;
  std::chrono::steady_clock::time_point begun_;
  std::size_t next_ = 0;
  std::size_t attempt_ = 0;  // counts connects
  bool is_late_ = false;
};

}  // namespace hvdrun
