// The driver's side of a relay. An agent that reaches none of this machine's addresses asks for one
// on its stdout. Its connections to the coordinator and the viewer go through ssh then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "common/wire/relay.h"

namespace hvdrun {

// Where the coordinator and the viewer listen, on this machine.
struct RelayPorts {
  std::uint16_t control = 0;
  std::uint16_t output = 0;
};

class HostRelay {
 public:
  struct Callbacks {
    // Bytes for the guard's stdin; `done` when it takes more.
    std::function<void(std::string bytes, std::function<void()> done)> write;
    std::function<void()> on_begin;                 // the agent has asked
    std::function<void(std::error_code)> on_fault;  // what it says makes no sense
  };

  HostRelay(boost::asio::io_context& io, RelayPorts ports, Callbacks callbacks);

  // Takes the guard's and its agent's stdout. Before the agent has asked nothing matters.
  void feed(std::string_view bytes);
  // The end of it.
  void end();

 private:
  void begin();
  void connect(RelayStream stream);

  boost::asio::io_context& io_;
  RelayPorts ports_;
  Callbacks callbacks_;
  std::string line_;
  std::unique_ptr<Relay> relay_;
  // Gone when this is: a connection that comes later has nobody to go to.
  std::shared_ptr<HostRelay*> self_ = std::make_shared<HostRelay*>(this);
};

}  // namespace hvdrun
