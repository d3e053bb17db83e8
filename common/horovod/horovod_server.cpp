#include "common/horovod/horovod_server.h"

#include <array>
#include <cerrno>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/fault_text.h"
#include "common/horovod/http_parser.h"
#include "common/horovod/http_response.h"
#include "common/host/rank_environment.h"
#include "common/net/open_port.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;
using Clock = std::chrono::steady_clock;

// Before accept is tried again after it failed, so that the loop does not spin on it.
constexpr std::chrono::milliseconds kHttpRetryPause{100};
// In one turn of the loop, so that the job's own connections get theirs.
constexpr int kAcceptsPerTurn = 64;
constexpr int kStepsPerTurn = 64;
constexpr std::size_t kReadBytes = 64U << 10;
// The values of some hundred members fit, so that they leave in one piece. The kernel caps it.
constexpr int kSendBuffer = 1 << 20;
constexpr std::string_view kReno = "reno";

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

UniqueFd open_horovod_listener(std::uint16_t& port) {
  constexpr const char* kWhat =
      "cannot open a port for Horovod's rendezvous (--env-compat torch,mpi-ids goes without it)";
  std::error_code ec;
  UniqueFd fd = open_port(asio::ip::make_address(kHorovodAddress), {}, PortUse::listens, ec);
  if (ec) throw std::system_error(ec, kWhat);
  const auto check = [](int result) {
    if (result < 0) throw std::system_error(errno, std::system_category(), kWhat);
  };
  // Both are inherited by the connections.
  const int on = 1;
  check(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  check(::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer));
  // The usual alternatives pace what they send by timers; within one machine that only costs. Reno
  // is part of every kernel, but a container may not allow the choice, and that is no fault.
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
  port = port_of(fd);
  return fd;
}

struct HorovodServer::Port : std::enable_shared_from_this<Port> {
  Port(asio::io_context& context, UniqueFd socket, HorovodBackend& answers, OnTrouble trouble,
       HorovodServerLimits limit)
      : io(context),
        listener(context, socket.release()),
        backend(answers),
        on_trouble(std::move(trouble)),
        limits(limit) {}

  void wait();
  void accept_some();
  void accept_later(int error);

  asio::io_context& io;
  Descriptor listener;
  std::optional<asio::steady_timer> pause;  // while accept fails
  HorovodBackend& backend;
  OnTrouble on_trouble;
  HorovodServerLimits limits;
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> open;  // those that wait
  std::uint64_t next_id = 0;
  std::size_t held = 0;  // bytes of their unfinished requests
  // Not touched before the first request: most jobs make none.
  std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  bool full = false;  // nobody is accepted until one of `open` goes
  bool in_trouble = false;
  bool closed = false;
};

// One client. Held by Port::open from its first wait on, before that by whoever runs it.
class HorovodServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Port> port, int socket)
      : server_(std::move(port)), id_(server_->next_id++), fd_(socket) {}

  void advance();
  void late_answer(HorovodAnswer answer);
  void close();
  // Closes when the server is going: nobody is accepted in its place.
  void drop();

 private:
  // request ──whole──▶ held ──answer──▶ response ──sent──▶ request, or drain, or the end
  //    └──answered at once, or faulty────────▲
  enum class State : std::uint8_t {
    request,   // reads the next one; before its first byte the connection is idle
    held,      // the backend answers later
    response,  // an answer is on its way
    drain,     // the last one has been sent; what still comes is read and dropped
  };
  // The step after an answer. A socket that is closed with input unread would take it back.
  enum class After : std::uint8_t { next_request, drain, end };
  // The wait that the connection has a deadline for; none: it has not had to wait.
  enum class Deadline : std::uint8_t { none, idle, request, held, response, drain };
  enum class Step : std::uint8_t { go_on, wait_read, wait_write, rest, end };

  Step step();
  void respond(HorovodAnswer answer);
  Step write_some();
  Step end_response();
  Step read_some();
  Step drain_some();
  Step look_for_end();
  void respond_and_close(int status);
  void wait(Descriptor::wait_type what);
  void arm(Deadline next);
  void on_deadline();
  int socket() { return waiter_ ? waiter_->native_handle() : fd_.get(); }
  bool is_open() const { return fd_ || waiter_; }

  std::shared_ptr<Port> server_;
  std::uint64_t id_;
  UniqueFd fd_;
  std::optional<Descriptor> waiter_;  // once it has had to wait; fd_ has moved there then
  std::optional<asio::steady_timer> timer_;
  HttpParser parser_;
  HttpResponse response_;
  std::size_t counted_ = 0;  // of the server's held bytes
  State state_ = State::request;
  After after_ = After::end;
  bool read_pending_ = false;  // a wait of the loop, which goes on in whatever state comes next
  bool write_pending_ = false;
  Deadline armed_for_ = Deadline::none;
  Clock::time_point deadline_;
};

void HorovodServer::Port::wait() {
  listener.async_wait(Descriptor::wait_read, [self = shared_from_this()](const auto& ec) {
    if (!ec && !self->closed) self->accept_some();
  });
}

void HorovodServer::Port::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (open.size() >= limits.connections) {
      full = true;
      return;
    }
    const int fd =
        ::accept4(listener.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (would_block(errno)) break;
      // The connection's own trouble: it is gone, the next one is not.
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM) continue;
      return accept_later(errno);
    }
    in_trouble = false;
    std::make_shared<Connection>(shared_from_this(), fd)->advance();
  }
  wait();
}

void HorovodServer::Port::accept_later(int error) {
  pause.emplace(io, kHttpRetryPause);
  pause->async_wait([self = shared_from_this()](const auto& ec) {
    if (!ec && !self->closed) self->accept_some();
  });
  if (std::exchange(in_trouble, true)) return;
  on_trouble("cannot accept a connection for Horovod's rendezvous: " +
             fault_text(std::error_code(error, std::system_category())) + "; trying again");
}

void HorovodServer::Connection::advance() {
  for (int i = 0; i < kStepsPerTurn; ++i) {
    const Step next = step();
    if (next == Step::end) return close();
    if (next == Step::go_on) continue;
    server_->open.try_emplace(id_, shared_from_this());
    if (next == Step::wait_read) wait(Descriptor::wait_read);
    if (next == Step::wait_write) wait(Descriptor::wait_write);
    return;
  }
  // Not through a wait: what was read already would not wake it.
  server_->open.try_emplace(id_, shared_from_this());
  asio::post(server_->io, [self = shared_from_this()] {
    if (self->is_open()) self->advance();
  });
}

HorovodServer::Connection::Step HorovodServer::Connection::step() {
  switch (state_) {
    case State::response:
      return write_some();
    case State::drain:
      return drain_some();
    case State::held:
      return look_for_end();
    case State::request:
      break;
  }
  int fault = 0;
  auto request = parser_.next(fault);
  if (fault != 0) {
    respond_and_close(fault);
  } else if (request) {
    after_ = request->keep_alive ? After::next_request : After::end;
    auto answer = server_->backend.answer(std::move(*request), id_);
    if (answer.status == 0) {
      state_ = State::held;
    } else {
      respond(std::move(answer));
    }
  } else {
    return read_some();
  }
  return Step::go_on;
}

void HorovodServer::Connection::respond(HorovodAnswer answer) {
  response_ = HttpResponse(std::move(answer), after_ == After::next_request);
  state_ = State::response;
}

// Input that still comes belongs to nothing that we know: the answer is the last one.
void HorovodServer::Connection::respond_and_close(int status) {
  after_ = After::drain;
  respond({status, nullptr});
}

void HorovodServer::Connection::late_answer(HorovodAnswer answer) {
  armed_for_ = Deadline::none;
  respond(std::move(answer));
  advance();
}

HorovodServer::Connection::Step HorovodServer::Connection::write_some() {
  for (auto pieces = response_.pieces(); !pieces.empty(); pieces = response_.pieces()) {
    std::array<iovec, 2> vectors{};
    for (std::size_t i = 0; i < pieces.size(); ++i)  // sendmsg does not write to them
      vectors[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = pieces.size();
    const ssize_t done = ::sendmsg(socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done >= 0) {
      response_.sent(static_cast<std::size_t>(done));
    } else if (would_block(errno)) {
      arm(Deadline::response);
      return Step::wait_write;
    } else if (errno != EINTR) {
      return Step::end;
    }
  }
  return end_response();
}

HorovodServer::Connection::Step HorovodServer::Connection::end_response() {
  response_ = {};
  armed_for_ = Deadline::none;
  // More input than one request.
  if (after_ == After::end && parser_.mid_request()) after_ = After::drain;
  if (after_ == After::end) return Step::end;
  state_ = after_ == After::drain ? State::drain : State::request;
  if (state_ == State::drain) ::shutdown(socket(), SHUT_WR);
  return Step::go_on;
}

HorovodServer::Connection::Step HorovodServer::Connection::read_some() {
  const ssize_t got = ::recv(socket(), server_->buffer.get(), kReadBytes, MSG_DONTWAIT);
  if (got > 0) {
    parser_.feed({server_->buffer.get(), static_cast<std::size_t>(got)});
    return Step::go_on;
  }
  if (got == 0) return Step::end;
  if (errno == EINTR) return Step::go_on;
  if (!would_block(errno)) return Step::end;
  server_->held += parser_.held() - counted_;
  counted_ = parser_.held();
  if (server_->held > server_->limits.held) {
    respond_and_close(503);
    return Step::go_on;
  }
  arm(parser_.mid_request() ? Deadline::request : Deadline::idle);
  return Step::wait_read;
}

HorovodServer::Connection::Step HorovodServer::Connection::drain_some() {
  const ssize_t got = ::recv(socket(), server_->buffer.get(), kReadBytes, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && errno == EINTR)) return Step::go_on;
  if (got == 0 || !would_block(errno)) return Step::end;
  arm(Deadline::drain);
  return Step::wait_read;
}

// While a request waits, its connection is looked at only to learn that the client is gone. How
// long that takes the backend says.
HorovodServer::Connection::Step HorovodServer::Connection::look_for_end() {
  arm(Deadline::held);
  char byte = 0;
  const ssize_t got = ::recv(socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return Step::rest;  // the next request, which hides the end behind it
  return got < 0 && (would_block(errno) || errno == EINTR) ? Step::wait_read : Step::end;
}

void HorovodServer::Connection::wait(Descriptor::wait_type what) {
  bool& pending = what == Descriptor::wait_read ? read_pending_ : write_pending_;
  if (std::exchange(pending, true)) return;
  if (!waiter_) waiter_.emplace(server_->io, fd_.release());
  waiter_->async_wait(what, [self = shared_from_this(), &pending](const auto& ec) {
    pending = false;
    if (!ec && self->is_open()) self->advance();
  });
}

// A deadline counts from the first wait for the same thing, however many follow.
void HorovodServer::Connection::arm(Deadline next) {
  if (std::exchange(armed_for_, next) == next) return;
  const HorovodServerLimits& limits = server_->limits;
  deadline_ = Clock::now() + (next == Deadline::idle       ? limits.idle
                              : next == Deadline::held     ? limits.hold
                              : next == Deadline::response ? limits.response
                                                           : limits.request);
  if (!timer_) timer_.emplace(server_->io);
  timer_->expires_at(deadline_);
  timer_->async_wait([self = shared_from_this()](const auto& ec) {
    // It may have been armed anew, or for nothing, while this call was on its way.
    if (!ec && self->is_open() && self->armed_for_ != Deadline::none &&
        Clock::now() >= self->deadline_)
      self->on_deadline();
  });
}

void HorovodServer::Connection::on_deadline() {
  if (armed_for_ == Deadline::held) {
    auto answer = server_->backend.overdue(id_);
    armed_for_ = Deadline::none;
    if (answer.status == 0) return arm(Deadline::held);
    return late_answer(std::move(answer));
  }
  if (armed_for_ != Deadline::request) return close();
  respond_and_close(408);
  advance();
}

void HorovodServer::Connection::close() {
  if (!is_open()) return;
  drop();
  if (!std::exchange(server_->full, false)) return;
  asio::post(server_->io, [port = server_] {
    if (!port->closed) port->accept_some();
  });
}

void HorovodServer::Connection::drop() {
  server_->held -= counted_;
  if (state_ == State::held) server_->backend.forget(id_);
  timer_.reset();
  waiter_.reset();
  fd_.reset();
  server_->open.erase(id_);
}

HorovodServer::HorovodServer(asio::io_context& io, UniqueFd listener, HorovodBackend& backend,
                             OnTrouble on_trouble, HorovodServerLimits limits)
    : port_(
          std::make_shared<Port>(io, std::move(listener), backend, std::move(on_trouble), limits)) {
  port_->wait();
}

HorovodServer::~HorovodServer() {
  port_->closed = true;
  boost::system::error_code ignored;
  port_->listener.close(ignored);
  port_->pause.reset();
  while (!port_->open.empty()) {
    const auto connection = port_->open.begin()->second;
    connection->drop();
  }
}

void HorovodServer::answer(HorovodBackend::Waiter waiter, HorovodAnswer answer) {
  const auto found = port_->open.find(waiter);
  if (found == port_->open.end()) return;
  const auto connection = found->second;  // it may go with its answer
  connection->late_answer(std::move(answer));
}

void HorovodServer::answer_soon(HorovodBackend::Waiter waiter, HorovodAnswer answer) {
  asio::post(port_->io, [port = port_, waiter, answer = std::move(answer)]() mutable {
    const auto found = port->open.find(waiter);
    if (found == port->open.end()) return;
    const auto connection = found->second;
    connection->late_answer(std::move(answer));
  });
}

std::size_t HorovodServer::open_connections() const { return port_->open.size(); }

}  // namespace hvdrun
