// The making of a LinkSet's connections.
#include <algorithm>
#include <cerrno>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <utility>

#include "common/base/descriptor_limit.h"
#include "worker/hvd/comm/link/link_set.h"

namespace hvdrun {
namespace {

constexpr int kBacklog = 1 << 16;  // the kernel's own limit holds: net.core.somaxconn

[[noreturn]] void unavailable(const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::unavailable, what);
}

std::string nonce() {
  std::string bytes(LinkHandshake::kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    unavailable("the kernel gives no random bytes: " + system_fault_text(errno));
  return bytes;
}

// A rank with many peers needs more than the usual soft limit.
bool got_more_descriptors() {
  const std::uint64_t before = raise_descriptor_limit();
  return raise_descriptor_limit() > before;
}

std::string shortage(int error) {
  return system_fault_text(error) +
         (error == EMFILE ? "; each rank of another host takes a descriptor" : "");
}

UniqueFd prepared(int fd) {
  UniqueFd socket = leave_low_numbers(UniqueFd(fd));
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

UniqueFd new_socket(const SocketAddress& endpoint) {
  const auto make = [&] {
    return ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  };
  int fd = make();
  if (fd < 0 && errno == EMFILE && got_more_descriptors()) fd = make();
  if (fd < 0) unavailable("cannot make a socket: " + shortage(errno));
  return prepared(fd);
}

const sockaddr* raw(const SocketAddress& endpoint) {
  return reinterpret_cast<const sockaddr*>(&endpoint.address);
}

}  // namespace

LinkSet::LinkSet(Options options)
    : options_(std::move(options)),
      tls_(options_.encrypt ? std::make_unique<LinkTls>(options_.key) : nullptr),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) unavailable("cannot make an eventfd: " + system_fault_text(errno));
  listen();
}

void LinkSet::listen() {
  const PortRange ports = options_.ports;
  // Remains of earlier connections, there for their late packets, may hold a port of the range.
  // They do not matter once no other port is to be had. Not at first: SO_REUSEADDR also takes a
  // port that somebody has bound to keep it.
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
        unavailable("cannot listen at " + options_.address + ": " + system_fault_text(errno));
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
  // A rank that came early was not looked after since: the time that this took is not its own.
  for (const auto& pending : pendings_) {
    pending->begun = Clock::now();
    pending->is_ready = true;
  }
  room_.widen();
  for (const std::size_t rank : ranks)
    if (!links_[rank] && options_.awaited) options_.awaited->add(rank);
  std::vector<std::size_t> higher;
  for (const std::size_t rank : ranks)
    if (!links_[rank] && rank > options_.identity.rank) higher.push_back(rank);
  dials_ = DialQueue(std::move(higher));
  while (misses(ranks)) {
    dial_some();
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

void LinkSet::dial_some() {
  while (const auto rank = dials_.next(Clock::now())) start_connecting(*rank);
}

void LinkSet::start_connecting(std::size_t rank) {
  const SocketAddress target = SocketAddress::parse(endpoints_[rank]);
  auto pending = std::make_unique<Pending>(
      Pending{new_socket(target),
              LinkHandshake::connecting(options_.key, options_.identity,
                                        static_cast<std::uint32_t>(rank), nonce()),
              rank,
              false,
              false,
              {},
              {},
              Clock::now()});
  if (::connect(pending->socket.get(), raw(target), target.bytes) != 0 && errno != EINPROGRESS)
    cannot_connect(rank, system_fault_text(errno));
  pendings_.push_back(std::move(pending));
}

void LinkSet::accept_all() {
  while (room_.has_place()) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // The connection's own trouble: it is gone, the next one is not.
      if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
      if (can_accept_later(errno)) continue;
      return;
    }
    room_.enter();
    pendings_.push_back(std::make_unique<Pending>(
        Pending{prepared(fd),
                LinkHandshake::accepting(options_.key, options_.identity, nonce()),
                std::nullopt,
                true,
                false,
                {},
                {},
                Clock::now()}));
  }
}

// True: accept() is to be tried again after this error. A connection that there is no room for
// waits while somebody is inside who may turn out to be a stranger.
bool LinkSet::can_accept_later(int error) {
  if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return false;
  if (error == EMFILE && got_more_descriptors()) return true;
  if (room_.is_empty())
    unavailable("cannot accept a connection from another host: " + shortage(error));
  room_.shrink();
  return true;
}

void LinkSet::step_pendings() {
  const auto now = Clock::now();
  for (const auto& pending : pendings_)
    if (!pending->target && room_.leaves_at(pending->begun, pending->has_spoken) <= now)
      pending->is_ready = true;
  for (auto at = pendings_.begin(); at != pendings_.end();) {
    Pending& pending = **at;
    if (!std::exchange(pending.is_ready, false)) {
      ++at;
      continue;
    }
    const Outcome outcome = step(pending);
    if (outcome == Outcome::ready && pending.target) dials_.done(*pending.target);
    if (outcome == Outcome::ready) adopt(pending);
    if (outcome == Outcome::busy) {
      ++at;
      continue;
    }
    if (!pending.target) room_.leave();
    at = pendings_.erase(at);
  }
}

// When one of them must go, or another be dialed, if nothing else happens.
LinkSet::Clock::time_point LinkSet::pendings_wake_at() const {
  auto at = dials_.wakes_at().value_or(Clock::time_point::max());
  for (const auto& pending : pendings_)
    if (!pending->target) at = std::min(at, room_.leaves_at(pending->begun, pending->has_spoken));
  return at;
}

LinkSet::Outcome LinkSet::drop(const Pending& pending, const std::string& why) const {
  if (pending.target) cannot_connect(*pending.target, why);
  return Outcome::dropped;
}

// Before its first word the other rank may just have had no room.
LinkSet::Outcome LinkSet::hung_up(const Pending& pending, int error) {
  const bool is_hung_up = error == 0 || error == ECONNRESET || error == EPIPE;
  if (is_hung_up && pending.target && !pending.has_spoken &&
      dials_.again(*pending.target, Clock::now()))
    return Outcome::dropped;
  return drop(pending, error == 0 ? "the connection was closed" : system_fault_text(error));
}

// A stranger has only so much time.
LinkSet::Outcome LinkSet::wait_on(const Pending& pending) const {
  return !pending.target && room_.leaves_at(pending.begun, pending.has_spoken) <= Clock::now()
             ? Outcome::dropped
             : Outcome::busy;
}

LinkSet::Outcome LinkSet::step(Pending& pending) {
  if (!pending.connected) {
    pollfd polled{pending.socket.get(), POLLOUT, 0};
    if (::poll(&polled, 1, 0) == 0) return Outcome::busy;
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(pending.socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return hung_up(pending, error);
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
      if (sent < 0 && errno != EAGAIN) return hung_up(pending, errno);
      if (sent > 0) pending.output.erase(0, static_cast<std::size_t>(sent));
      if (!pending.output.empty()) return Outcome::busy;
    }
    if (pending.handshake.state() == LinkHandshake::State::done) return Outcome::ready;
    const std::size_t wanted = pending.handshake.wanted();
    std::string part(wanted - pending.input.size(), '\0');
    const ssize_t got = ::recv(pending.socket.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got == 0) return hung_up(pending, 0);
    if (got < 0 && errno != EAGAIN) return hung_up(pending, errno);
    if (got < 0) return wait_on(pending);
    pending.input.append(part, 0, static_cast<std::size_t>(got));
    if (pending.input.size() < wanted) continue;
    pending.has_spoken = true;
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
