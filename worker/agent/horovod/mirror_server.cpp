#include "worker/agent/horovod/mirror_server.h"

#include <utility>

namespace hvdrun {

MirrorServer::MirrorServer(boost::asio::io_context& io, std::uint32_t epoch, Send send,
                           HorovodServer::OnTrouble on_trouble)
    : send_(std::move(send)),
      mirror_(epoch),
      server_(io, open_horovod_listener(port_), *this, std::move(on_trouble)) {}

HorovodAnswer MirrorServer::answer(HttpRequest request, Waiter waiter) {
  HorovodAnswer answer = mirror_.answer(std::move(request), waiter);
  send_frames();
  return answer;
}

Errc MirrorServer::coordinator_frame(const Frame& frame) {
  const Errc fault = mirror_.coordinator_frame(frame);
  send_frames();
  // A member that is answered may ask again at once.
  for (HorovodMirror::Late& late : mirror_.take_late())
    server_.answer(late.waiter, std::move(late.answer));
  return fault;
}

void MirrorServer::send_frames() {
  for (std::string& frame : mirror_.take_frames()) send_(std::move(frame));
}

}  // namespace hvdrun
