// How LinkSet comes to its connections.
#include <algorithm>
#include <cerrno>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "worker/comm/link_set.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 1024;
// Strangers that connect and say nothing: so many, so long.
constexpr std::size_t kMaxPending = 1024;
constexpr milliseconds kHandshakeTime{10'000};

std::string error_text(int error) { return std::system_category().message(error); }

[[noreturn]] void unavailable(const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::unavailable, what);
}

std::string nonce() {
  std::string bytes(LinkHandshake::kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    unavailable("the kernel gives no random bytes: " + error_text(errno));
  return bytes;
}

UniqueFd new_socket(const SocketAddress& endpoint) {
  UniqueFd socket(
      ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) unavailable("cannot make a socket: " + error_text(errno));
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

const sockaddr* raw(const SocketAddress& endpoint) {
  return reinterpret_cast<const sockaddr*>(&endpoint.address);
}

}  // namespace

LinkSet::LinkSet(Options options)
    : options_(std::move(options)),
      tls_(options_.encrypt ? std::make_unique<LinkTls>(options_.key) : nullptr),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) unavailable("cannot make an eventfd: " + error_text(errno));
  listen();
}

void LinkSet::listen() {
  const PortRange ports = options_.ports;
  // What earlier connections have left at a port of the range for their late packets does not
  // matter, once no other port is to be had. Not at first: SO_REUSEADDR also takes a port that
  // somebody has bound to keep it.
  for (const int reuse : {0, 1}) {
    for (std::uint32_t port = ports.first; port <= ports.last; ++port) {
      endpoint_ = SocketAddress::of(options_.address, static_cast<std::uint16_t>(port));
      listener_ = new_socket(endpoint_);
      ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
      if (::bind(listener_.get(), raw(endpoint_), endpoint_.bytes) == 0 &&
          ::listen(listener_.get(), kBacklog) == 0) {
        endpoint_.bytes = sizeof endpoint_.address;
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&endpoint_.address),
                      &endpoint_.bytes);
        return;
      }
      if (ports.first == 0 || errno != EADDRINUSE)
        unavailable("cannot listen at " + options_.address + ": " + error_text(errno));
    }
  }
  unavailable("every port of --port-range " + std::to_string(ports.first) + "-" +
              std::to_string(ports.last) + " is in use at " + options_.address +
              "; each rank of a job on several hosts needs one there");
}

LinkSet::~LinkSet() = default;

void LinkSet::set_peers(HostLayout layout, std::vector<std::string> endpoints) {
  const MutexLock lock(mutex_);
  gone_.resize(layout.size());
  links_.resize(layout.size());
  endpoints_ = std::move(endpoints);
  layout_ = std::move(layout);
}

bool LinkSet::misses(const std::vector<std::size_t>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](std::size_t rank) { return !links_[rank]; });
}

void LinkSet::connect(const std::vector<std::size_t>& ranks) {
  if (!misses(ranks)) return;
  connecting_to_ = ranks;
  for (const std::size_t rank : ranks)
    if (!links_[rank] && options_.awaited) options_.awaited->add(rank);
  for (const std::size_t rank : ranks)
    if (!links_[rank] && rank > options_.identity.rank) start_connecting(rank);
  while (misses(ranks)) {
    accept_all();
    step_pendings();
    progress();
    if (!misses(ranks)) break;
    look_for_trouble();
    block();
  }
  connecting_to_.clear();
}

void LinkSet::cannot_connect(std::size_t rank, const std::string& why) const {
  unavailable("no connection to rank " + std::to_string(rank) + " at " + endpoints_[rank] + ": " +
              why + " (ranks on different hosts must reach each other's ports)");
}

void LinkSet::start_connecting(std::size_t rank) {
  const SocketAddress target = SocketAddress::parse(endpoints_[rank]);
  auto pending = std::make_unique<Pending>(
      Pending{new_socket(target),
              LinkHandshake::connecting(options_.key, options_.identity,
                                        static_cast<std::uint32_t>(rank), nonce()),
              rank,
              false,
              {},
              {},
              Clock::now(),
              nullptr,
              false});
  if (::connect(pending->socket.get(), raw(target), target.bytes) != 0 && errno != EINPROGRESS)
    cannot_connect(rank, error_text(errno));
  pendings_.push_back(std::move(pending));
}

void LinkSet::accept_all() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE)
        unavailable("cannot accept a connection from another host: " + error_text(errno));
      return;
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (pendings_.size() >= kMaxPending) continue;
    pendings_.push_back(std::make_unique<Pending>(
        Pending{std::move(socket),
                LinkHandshake::accepting(options_.key, options_.identity, nonce()),
                std::nullopt,
                true,
                {},
                {},
                Clock::now(),
                nullptr,
                false}));
  }
}

void LinkSet::step_pendings() {
  for (auto at = pendings_.begin(); at != pendings_.end();) {
    const Outcome outcome = step(**at);
    if (outcome == Outcome::ready) adopt(**at);
    at = outcome == Outcome::busy ? at + 1 : pendings_.erase(at);
  }
}

LinkSet::Outcome LinkSet::drop(const Pending& pending, const std::string& why) const {
  if (pending.target) cannot_connect(*pending.target, why);
  return Outcome::dropped;
}

// A stranger has only so much time.
LinkSet::Outcome LinkSet::wait_on(const Pending& pending) const {
  return !pending.target && Clock::now() - pending.begun > kHandshakeTime ? Outcome::dropped
                                                                          : Outcome::busy;
}

LinkSet::Outcome LinkSet::step(Pending& pending) {
  if (!pending.connected) {
    pollfd polled{pending.socket.get(), POLLOUT, 0};
    if (::poll(&polled, 1, 0) == 0) return Outcome::busy;
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(pending.socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return drop(pending, error_text(error));
    pending.connected = true;
  }
  const Outcome outcome = pending.tls ? Outcome::ready : prove(pending);
  return outcome == Outcome::ready && tls_ ? secure(pending) : outcome;
}

LinkSet::Outcome LinkSet::prove(Pending& pending) {
  while (true) {
    pending.output += pending.handshake.take_output();
    if (!pending.output.empty()) {
      const ssize_t sent = ::send(pending.socket.get(), pending.output.data(),
                                  pending.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return drop(pending, error_text(errno));
      if (sent > 0) pending.output.erase(0, static_cast<std::size_t>(sent));
      if (!pending.output.empty()) return Outcome::busy;
    }
    if (pending.handshake.state() == LinkHandshake::State::done) return Outcome::ready;
    const std::size_t wanted = pending.handshake.wanted();
    std::string part(wanted - pending.input.size(), '\0');
    const ssize_t got = ::recv(pending.socket.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got == 0) return drop(pending, "the connection was closed");
    if (got < 0 && errno != EAGAIN) return drop(pending, error_text(errno));
    if (got < 0) return wait_on(pending);
    pending.input.append(part, 0, static_cast<std::size_t>(got));
    if (pending.input.size() < wanted) continue;
    pending.handshake.feed(std::exchange(pending.input, {}));
    if (pending.handshake.state() == LinkHandshake::State::refused)
      return drop(pending, "what answers there is no rank of this job");
  }
}

LinkSet::Outcome LinkSet::secure(Pending& pending) {
  if (!pending.tls) pending.tls = tls_->over(std::move(pending.socket), !pending.target);
  using Progress = LinkTls::Channel::Progress;
  const Progress progress = pending.tls->handshake();
  pending.tls_writes = progress == Progress::wants_output;
  if (progress == Progress::done) return Outcome::ready;
  if (progress == Progress::failed)
    return drop(pending, "the TLS handshake failed: " + pending.tls->problem());
  return wait_on(pending);
}

// Only ranks of lower numbers connect to this one, each once.
void LinkSet::adopt(Pending& pending) {
  const std::size_t rank = pending.handshake.peer();
  const bool expected = rank < links_.size() && !links_[rank] &&
                        (pending.target || rank < options_.identity.rank) &&
                        layout_->host_of(rank) != layout_->host_of(options_.identity.rank);
  if (!expected) return;
  std::unique_ptr<LinkChannel> channel = std::move(pending.tls);
  if (!channel) channel = std::make_unique<LinkChannel>(std::move(pending.socket));
  links_[rank] = std::make_unique<Link>(std::move(channel), rank);
  connected_.push_back(links_[rank].get());
  if (options_.awaited) options_.awaited->made(rank);
}

}  // namespace hvdrun
