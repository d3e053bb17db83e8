#include "common/net/tls_listener.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/descriptor_limit.h"
#include "common/base/error.h"
#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/net/strangers.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Before accept is tried again after it failed, so that the loop does not spin on it.
constexpr std::chrono::milliseconds kRetryPause{100};

// The sockets that listen here come from us, bound to one of the two families.
tcp family_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
      address.ss_family == AF_INET6)
    return tcp::v6();
  return tcp::v4();
}

// The limit that accept has met, in words.
std::string why_not(const boost::system::error_code& ec) {
  if (ec == boost::system::errc::too_many_files_open)
    return "all descriptors of this process are in use, and each host takes one" +
           descriptor_cure(ec);
  return fault_text(ec);
}

// One that has offered nothing yet, as a host of the job does at all addresses but the one where it
// was answered first.
bool is_hang_up(const std::error_code& ec) {
  return ec == Errc::closed || ec == std::errc::connection_reset || ec == std::errc::broken_pipe;
}

// A socket for both families has version 4 within version 6.
std::string address_text(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

}  // namespace

struct TlsListener::State : std::enable_shared_from_this<TlsListener::State> {
  State(asio::io_context& context, UniqueFd socket, PskKey key, OnPeer peer, OnTrouble trouble)
      : io(context),
        acceptor(context, family_of(socket.get()), socket.get()),
        pause(context),
        count_timer(context),
        tls(make_tls_context(std::move(key))),
        on_peer(std::move(peer)),
        on_trouble(std::move(trouble)) {
    socket.release();
  }

  // Beyond so many handshakes at once the others wait in the kernel's backlog: to close them would
  // fail hosts whose only fault is to come together.
  void accept() {
    if (accepting || under_way >= limits::kMaxPendingHandshakes) return;
    accepting = true;
    acceptor.async_accept([self = shared_from_this()](const auto& ec, tcp::socket socket) {
      if (self->closed) return;
      if (ec) return self->accept_later(why_not(ec));
      self->accepting = self->complained = false;
      self->shake_hands(std::move(socket));
      if (!self->closed) self->accept();
    });
  }

  void accept_later(const std::string& why) {
    pause.expires_after(kRetryPause);
    pause.async_wait([self = shared_from_this()](const auto& ec) {
      self->accepting = false;
      if (!ec && !self->closed) self->accept();
    });
    // Once, until it works again.
    if (!std::exchange(complained, true))
      on_trouble("cannot accept a connection: " + why + "; trying again");
  }

  void shake_hands(tcp::socket socket) {
    boost::system::error_code gone;  // it may have closed already; then the handshake fails
    const std::string from = address_text(socket.remote_endpoint(gone).address());
    ++under_way;
    async_tls_accept(
        io, tls, std::move(socket), limits::kHandshakeTimeout,
        [self = shared_from_this(), from](std::error_code ec, std::unique_ptr<ByteStream> stream) {
          --self->under_way;
          if (self->closed) return;
          if (!ec)
            self->on_peer(std::move(stream));
          else if (!is_hang_up(ec))
            self->refuse(from, ec.message());
          if (!self->closed) self->accept();
        });
  }

  void refuse(const std::string& address, const std::string& why) {
    if (const auto line = strangers.refused(address, why, std::chrono::steady_clock::now()))
      on_trouble(*line);
    count_strangers();
  }

  void count_strangers() {
    for (const std::string& line : strangers.take_counts(std::chrono::steady_clock::now()))
      on_trouble(line);
    const auto next = strangers.next_deadline();
    if (!next || next == count_timer.expiry()) return;
    count_timer.expires_at(*next);
    count_timer.async_wait([self = shared_from_this()](const auto& ec) {
      if (!ec && !self->closed) self->count_strangers();
    });
  }

  asio::io_context& io;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  asio::steady_timer count_timer;
  Strangers strangers;
  std::shared_ptr<TlsContext> tls;
  OnPeer on_peer;
  OnTrouble on_trouble;
  std::size_t under_way = 0;
  bool accepting = false;
  bool complained = false;
  bool closed = false;
};

TlsListener::TlsListener(asio::io_context& io, UniqueFd socket, PskKey key, OnPeer on_peer,
                         OnTrouble on_trouble)
    : state_(std::make_shared<State>(io, std::move(socket), std::move(key), std::move(on_peer),
                                     std::move(on_trouble))) {
  state_->accept();
}

TlsListener::~TlsListener() {
  state_->closed = true;
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  try {
    state_->pause.cancel();
    state_->count_timer.cancel();
  } catch (const boost::system::system_error&) {
    // Then they end by themselves and find the listener closed.
  }
}

}  // namespace hvdrun
