// Serves Horovod's dialect over HTTP on a port of its own; what it answers a HorovodBackend says.
// One thread; reads, writes and accepts never block, and Asio is asked only when one of them would:
// most requests are answered in the turn that accepts them.
//
// Horovod's client makes one connection for each request, has no time-out of its own, and ends
// its process after three failures. So every connection is answered or closed within a deadline,
// and none is turned away: beyond the limit they wait in the kernel's backlog. A connection is
// closed after its answer unless the request asks to keep it; the side that closes first pays with
// a port that stays taken for a minute, and that must not be the client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"
#include "common/horovod/horovod_dialect.h"

namespace hvdrun {

// A socket that listens at kHorovodAddress (common/host/rank_environment.h), and its port. Throws
// std::system_error.
UniqueFd open_horovod_listener(std::uint16_t& port);

struct HorovodServerLimits {
  std::size_t connections = limits::kMaxHttpConnections;
  std::size_t held = limits::kMaxHttpHeld;
  std::chrono::milliseconds idle = limits::kHttpIdle;
  std::chrono::milliseconds request = limits::kHttpRequest;
  std::chrono::milliseconds response = limits::kHttpResponse;
  std::chrono::milliseconds hold = limits::kHttpHold;
};

class HorovodServer {
 public:
  using OnTrouble = std::function<void(const std::string& what)>;

  // `backend` outlives it. `on_trouble` gets a line for the user when accept fails, which is tried
  // again after a pause.
  HorovodServer(boost::asio::io_context& io, UniqueFd listener, HorovodBackend& backend,
                OnTrouble on_trouble, HorovodServerLimits limits = {});
  // Closes the port and all connections.
  ~HorovodServer();
  HorovodServer(const HorovodServer&) = delete;
  HorovodServer& operator=(const HorovodServer&) = delete;

  // To who waits; nothing when that connection has gone. Not from within the backend, which has
  // the second for others than who asks.
  void answer(HorovodBackend::Waiter waiter, HorovodAnswer answer);
  void answer_soon(HorovodBackend::Waiter waiter, HorovodAnswer answer);
  // Connections that could not be answered and closed at once.
  std::size_t open_connections() const;

 private:
  struct Port;
  class Connection;
  std::shared_ptr<Port> port_;
};

}  // namespace hvdrun
