// The port at which Horovod's members of this host find their store, and the copy that answers
// them. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/error.h"
#include "common/horovod/horovod_server.h"
#include "common/wire/frame.h"
#include "worker/agent/horovod/horovod_mirror.h"

namespace hvdrun {

class MirrorServer final : public HorovodBackend {
 public:
  using Send = std::function<void(std::string frame)>;

  // `send` is for the coordinator, `on_trouble` as HorovodServer's. Throws std::system_error when
  // no port is to be had.
  MirrorServer(boost::asio::io_context& io, std::uint32_t epoch, Send send,
               HorovodServer::OnTrouble on_trouble);

  std::uint16_t port() const { return port_; }
  // The coordinator's words; as HorovodMirror's.
  Errc coordinator_frame(const Frame& frame);

  HorovodAnswer answer(HttpRequest request, Waiter waiter) override;
  HorovodAnswer overdue(Waiter waiter) override { return mirror_.overdue(waiter); }
  void forget(Waiter waiter) override { mirror_.forget(waiter); }

 private:
  void send_frames();

  std::uint16_t port_ = 0;
  Send send_;
  HorovodMirror mirror_;
  HorovodServer server_;  // goes first
};

}  // namespace hvdrun
