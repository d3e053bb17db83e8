#include "common/wire/relay.h"

#include <array>
#include <optional>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include "common/net/unix_stream.h"
#include "common/wire/relay_mux.h"

namespace hvdrun {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;

struct Relay::State : std::enable_shared_from_this<State> {
  struct Lane {
    std::optional<Socket> socket;
    std::string incoming;  // from the channel, until the socket takes it
    std::string writing;
    std::array<char, RelayMux::kMaxPiece> buffer{};
    bool reads = false;
    bool writes = false;
    bool ended_here = false;   // the socket's side
    bool ended_there = false;  // the channel's
    bool shut = false;         // and the socket knows
    bool dead = false;         // the socket takes nothing any more
  };

  State(asio::io_context& context, Callbacks given) : io(context), callbacks(std::move(given)) {}

  Lane& lane(RelayStream stream) { return lanes[static_cast<std::size_t>(stream)]; }

  void attach(RelayStream stream, UniqueFd fd) {
    Lane& to = lane(stream);
    if (fd) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
      to.socket.emplace(io, asio::generic::stream_protocol(address.ss_family, 0), fd.release());
    } else {
      to.dead = true;
      to.ended_here = true;
      mux.end(stream);
    }
    pump();
  }

  void feed(std::string_view bytes) {
    if (closed || channel_ended) return;
    std::vector<RelayMux::Event> events;
    std::error_code fault = mux.feed(bytes, events);
    for (RelayMux::Event& event : events) {
      Lane& to = lane(event.stream);
      switch (event.what) {
        case RelayMux::Event::What::opened:
          if (!callbacks.on_open) {
            fault = make_error_code(Errc::unexpected_message);
            break;
          }
          callbacks.on_open(event.stream);
          break;
        case RelayMux::Event::What::data:
          to.incoming += event.bytes;
          break;
        case RelayMux::Event::What::ended:
          to.ended_there = true;
          break;
      }
    }
    if (fault) {
      const auto on_fault = callbacks.on_fault;
      end();
      return on_fault(fault);
    }
    pump();
  }

  void end() {
    channel_ended = true;
    for (Lane& to : lanes) to.ended_there = true;
    pump();
  }

  void close() {
    closed = true;
    boost::system::error_code ignored;
    for (Lane& each : lanes)
      if (each.socket) each.socket->close(ignored);
    callbacks = {};
  }

  void pump() {
    if (closed) return;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const auto stream = static_cast<RelayStream>(i);
      if (lanes[i].dead) mux.taken(stream, std::exchange(lanes[i].incoming, {}).size());
      if (!lanes[i].socket) continue;
      read(stream);
      write(stream);
      close_if_done(lanes[i]);
    }
    if (channel_busy || channel_ended) return;
    std::string bytes = mux.next();
    if (bytes.empty()) return;
    channel_busy = true;
    callbacks.write(std::move(bytes), [self = shared_from_this()] {
      self->channel_busy = false;
      self->pump();
    });
  }

  void read(RelayStream stream) {
    Lane& from = lane(stream);
    const std::size_t size = mux.may_send(stream);
    if (from.reads || from.ended_here || size == 0 || channel_ended) return;
    from.reads = true;
    from.socket->async_read_some(
        asio::buffer(from.buffer.data(), size),
        [self = shared_from_this(), stream](const auto& ec, std::size_t got) {
          if (self->closed) return;
          Lane& lane = self->lane(stream);
          lane.reads = false;
          if (got > 0) self->mux.send(stream, std::string(lane.buffer.data(), got));
          if (ec) {
            lane.ended_here = true;
            self->mux.end(stream);
          }
          self->pump();
        });
  }

  void write(RelayStream stream) {
    Lane& to = lane(stream);
    if (to.writes || to.incoming.empty()) return;
    to.writes = true;
    to.writing = std::exchange(to.incoming, {});
    asio::async_write(*to.socket, asio::buffer(std::as_const(to.writing)),
                      [self = shared_from_this(), stream](const auto& ec, std::size_t) {
                        if (self->closed) return;
                        Lane& lane = self->lane(stream);
                        lane.writes = false;
                        if (ec) lane.dead = true;
                        self->mux.taken(stream, std::exchange(lane.writing, {}).size());
                        self->pump();
                      });
  }

  static void close_if_done(Lane& lane) {
    boost::system::error_code ignored;
    const bool all_handed_on = lane.incoming.empty() && !lane.writes;
    if (lane.ended_there && all_handed_on && !std::exchange(lane.shut, true))
      lane.socket->shutdown(Socket::shutdown_send, ignored);
    if (lane.ended_here && lane.shut) lane.socket.reset();
  }

  asio::io_context& io;
  Callbacks callbacks;
  RelayMux mux;
  std::array<Lane, kRelayStreams> lanes;
  bool channel_busy = false;
  bool channel_ended = false;
  bool closed = false;
};

Relay::Relay(asio::io_context& io, Callbacks callbacks)
    : state_(std::make_shared<State>(io, std::move(callbacks))) {}

Relay::~Relay() { state_->close(); }

UniqueFd Relay::open(RelayStream stream) {
  auto [near, far] = make_socket_pair();
  state_->mux.open(stream);
  state_->attach(stream, std::move(far));
  return std::move(near);
}

void Relay::attach(RelayStream stream, UniqueFd socket) {
  state_->attach(stream, std::move(socket));
}

void Relay::feed(std::string_view bytes) { state_->feed(bytes); }

void Relay::end() { state_->end(); }

}  // namespace hvdrun
