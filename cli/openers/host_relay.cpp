#include "cli/openers/host_relay.h"

#include <array>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace hvdrun {

namespace asio = boost::asio;
using asio::ip::tcp;

HostRelay::HostRelay(asio::io_context& io, RelayPorts ports, Callbacks callbacks)
    : io_(io), ports_(ports), callbacks_(std::move(callbacks)) {}

void HostRelay::feed(std::string_view bytes) {
  if (relay_) return relay_->feed(bytes);
  line_ += bytes;
  const auto at = line_.find(kRelayLine);
  if (at == std::string::npos) {
    if (line_.size() > kRelayLine.size()) line_.erase(0, line_.size() - kRelayLine.size());
    return;
  }
  const std::string rest = line_.substr(at + kRelayLine.size());
  begin();
  relay_->feed(rest);
}

void HostRelay::begin() {
  callbacks_.on_begin();
  Relay::Callbacks callbacks;
  callbacks.write = callbacks_.write;
  callbacks.on_open = [this](RelayStream stream) { connect(stream); };
  callbacks.on_fault = callbacks_.on_fault;
  relay_ = std::make_unique<Relay>(io_, std::move(callbacks));
}

void HostRelay::connect(RelayStream stream) {
  const std::uint16_t port = stream == RelayStream::control ? ports_.control : ports_.output;
  const auto socket = std::make_shared<tcp::socket>(io_);
  // They listen at all addresses, but a machine may lack one of the families.
  const auto endpoints = std::make_shared<std::array<tcp::endpoint, 2>>(
      std::array{tcp::endpoint(asio::ip::address_v4::loopback(), port),
                 tcp::endpoint(asio::ip::address_v6::loopback(), port)});
  asio::async_connect(*socket, *endpoints,
                      [socket, endpoints, stream, weak = std::weak_ptr(self_)](
                          const auto& ec, const tcp::endpoint&) {
                        const auto self = weak.lock();
                        if (!self) return;
                        boost::system::error_code ignored;
                        if (!ec) socket->set_option(tcp::no_delay(true), ignored);
                        (*self)->relay_->attach(stream,
                                                ec ? UniqueFd() : UniqueFd(socket->release()));
                      });
}

void HostRelay::end() {
  if (relay_) relay_->end();
}

}  // namespace hvdrun
