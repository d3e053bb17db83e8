// Looks names up in a few threads of its own, since getaddrinfo blocks and cannot be called off: a
// look-up that nobody waits for any more delays nothing, the end of the process neither. Made,
// called and destroyed on the thread of the io_context, which gets the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace hvdrun {

class NameResolver {
 public:
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  struct Fault {
    std::string text;       // as the resolver says it; empty: there is at least one address
    bool may_pass = false;  // the name may be known later
  };
  // Never called from within resolve(), nor after destruction.
  using Handler = std::function<void(const Fault& fault, Endpoints)>;

  explicit NameResolver(boost::asio::io_context& io);
  ~NameResolver();
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // `family`: AF_UNSPEC, AF_INET or AF_INET6.
  void resolve(const std::string& host, std::uint16_t port, int family, Handler handler);

 private:
  struct Shared;
  struct State;
  void wait_for_answers();

  boost::asio::io_context& io_;
  std::unique_ptr<State> state_;
};

}  // namespace hvdrun
