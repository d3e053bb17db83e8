#include "common/net/unix_listener.h"

#include <chrono>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "common/base/fault_text.h"
#include "common/net/unix_stream.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

// Before accept is tried again after it failed, so that the loop does not spin on it.
constexpr std::chrono::milliseconds kUnixRetryPause{100};

// None: it is of another user.
std::optional<pid_t> peer_of_same_user(Protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != ::geteuid() && peer.uid != 0))
    return std::nullopt;
  return peer.pid;
}

}  // namespace

Protocol::endpoint unix_endpoint(const std::string& name) {
  std::string path = name;
  if (!path.empty() && path.front() == '@') path.front() = '\0';
  return Protocol::endpoint(path);
}

struct UnixListener::State : std::enable_shared_from_this<UnixListener::State> {
  State(asio::io_context& context, const std::string& name, OnPeer peer,
        std::function<void(const std::string&)> trouble)
      : io(context),
        acceptor(context, unix_endpoint(name)),
        pause(context),
        on_peer(std::move(peer)),
        on_trouble(std::move(trouble)) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](const auto& ec, Protocol::socket socket) {
      if (self->closed) return;
      if (ec) return self->accept_later(ec);
      self->complained = false;
      if (const auto peer = peer_of_same_user(socket))
        self->on_peer(make_unix_stream(self->io, UniqueFd(socket.release())), *peer);
      if (!self->closed) self->accept();
    });
  }

  void accept_later(const std::error_code& why) {
    pause.expires_after(kUnixRetryPause);
    pause.async_wait([self = shared_from_this()](const auto& ec) {
      if (!ec && !self->closed) self->accept();
    });
    if (on_trouble && !std::exchange(complained, true))
      on_trouble("cannot accept a connection of this machine: " + fault_text(why) +
                 "; trying again");
  }

  asio::io_context& io;
  Protocol::acceptor acceptor;
  asio::steady_timer pause;
  OnPeer on_peer;
  std::function<void(const std::string&)> on_trouble;
  bool complained = false;
  bool closed = false;
};

UnixListener::UnixListener(asio::io_context& io, const std::string& name, OnPeer on_peer,
                           std::function<void(const std::string&)> on_trouble)
    : state_(std::make_shared<State>(io, name, std::move(on_peer), std::move(on_trouble))) {
  state_->accept();
}

UnixListener::~UnixListener() {
  state_->closed = true;
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  try {
    state_->pause.cancel();
  } catch (const boost::system::system_error&) {
    // Then the pause ends by itself and finds the listener closed.
  }
}

}  // namespace hvdrun
