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

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Error";
  }
}

// Horovod's client compares header names byte by byte: exactly "Content-Length".
std::string response_head(int status, std::size_t length, bool keep) {
  std::string head = "HTTP/1.1 ";
  head.append(std::to_string(status)).append(" ").append(reason_of(status));
  head.append("\r\nContent-Length: ").append(std::to_string(length));
  head.append(keep ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
  return head;
}

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

struct HorovodServer::State : std::enable_shared_from_this<State> {
  State(asio::io_context& context, UniqueFd socket, HorovodBackend& answers, OnTrouble trouble,
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

// One client. Held by State::open from its first wait on, before that by whoever runs it.
class HorovodServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<State> state, int socket)
      : server_(std::move(state)), id_(server_->next_id++), fd_(socket) {}

  void advance();
  void late_answer(HorovodAnswer answer);
  void close();
  // Closes when the server is going: nobody is accepted in its place.
  void drop();

 private:
  enum class Phase : std::uint8_t { none, idle, request, held, response, drain };
  enum class Step : std::uint8_t { go_on, wait_read, wait_write, rest, end };

  Step step();
  void respond(HorovodAnswer answer);
  Step write_some();
  Step read_some();
  Step drain_some();
  Step look_for_end();
  void respond_and_close(int status);
  void wait(Descriptor::wait_type what);
  void arm(Phase next);
  void on_deadline();
  int socket() { return waiter_ ? waiter_->native_handle() : fd_.get(); }
  bool is_open() const { return fd_ || waiter_; }

  std::shared_ptr<State> server_;
  std::uint64_t id_;
  UniqueFd fd_;
  std::optional<Descriptor> waiter_;  // once it has had to wait; fd_ has moved there then
  std::optional<asio::steady_timer> timer_;
  HttpParser parser_;
  std::string head_;  // of the answer that is being sent, then its value
  HorovodBytes value_;
  std::size_t sent_ = 0;
  std::size_t counted_ = 0;  // of State::held
  bool answering_ = false;
  bool keep_ = false;      // the connection, after the answer
  bool waiting_ = false;   // for an answer that comes later
  bool draining_ = false;  // answered; what still comes is read and dropped
  bool read_pending_ = false;
  bool write_pending_ = false;
  Phase phase_ = Phase::none;
  Clock::time_point deadline_;
};

void HorovodServer::State::wait() {
  listener.async_wait(Descriptor::wait_read, [self = shared_from_this()](const auto& ec) {
    if (!ec && !self->closed) self->accept_some();
  });
}

void HorovodServer::State::accept_some() {
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

void HorovodServer::State::accept_later(int error) {
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
  if (answering_) return write_some();
  if (draining_) return drain_some();
  if (waiting_) return look_for_end();
  int fault = 0;
  auto request = parser_.next(fault);
  if (fault != 0) {
    respond_and_close(fault);
  } else if (request) {
    keep_ = request->keep_alive;
    auto answer = server_->backend.answer(std::move(*request), id_);
    waiting_ = answer.status == 0;
    if (!waiting_) respond(std::move(answer));
  } else {
    return read_some();
  }
  return Step::go_on;
}

void HorovodServer::Connection::respond(HorovodAnswer answer) {
  value_ = std::move(answer.value);
  head_ = response_head(answer.status, value_ ? value_->size() : 0, keep_);
  sent_ = 0;
  answering_ = true;
}

// What still comes belongs to nothing that we know: the answer is the last one. A socket that is
// closed with input unread would take the answer back.
void HorovodServer::Connection::respond_and_close(int status) {
  keep_ = false;
  draining_ = true;
  respond({status, nullptr});
}

void HorovodServer::Connection::late_answer(HorovodAnswer answer) {
  waiting_ = false;
  phase_ = Phase::none;
  respond(std::move(answer));
  advance();
}

HorovodServer::Connection::Step HorovodServer::Connection::write_some() {
  const std::size_t body = value_ ? value_->size() : 0;
  while (sent_ < head_.size() + body) {
    std::array<iovec, 2> pieces{};
    std::size_t count = 0;
    const auto add = [&](const std::string& bytes, std::size_t from) {
      // sendmsg does not write to it.
      if (from < bytes.size())
        pieces[count++] = {const_cast<char*>(bytes.data()) + from, bytes.size() - from};
    };
    add(head_, sent_);
    if (body > 0) add(*value_, sent_ > head_.size() ? sent_ - head_.size() : 0);
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t done = ::sendmsg(socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done >= 0) {
      sent_ += static_cast<std::size_t>(done);
    } else if (would_block(errno)) {
      arm(Phase::response);
      return Step::wait_write;
    } else if (errno != EINTR) {
      return Step::end;
    }
  }
  answering_ = false;
  value_.reset();
  phase_ = Phase::none;
  // More input than one request: see respond_and_close().
  if (!keep_ && parser_.mid_request()) draining_ = true;
  if (draining_) ::shutdown(socket(), SHUT_WR);
  return keep_ || draining_ ? Step::go_on : Step::end;
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
  arm(parser_.mid_request() ? Phase::request : Phase::idle);
  return Step::wait_read;
}

HorovodServer::Connection::Step HorovodServer::Connection::drain_some() {
  const ssize_t got = ::recv(socket(), server_->buffer.get(), kReadBytes, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && errno == EINTR)) return Step::go_on;
  if (got == 0 || !would_block(errno)) return Step::end;
  arm(Phase::drain);
  return Step::wait_read;
}

// While a request waits, its connection is looked at only to learn that the client is gone. How
// long that takes the backend says.
HorovodServer::Connection::Step HorovodServer::Connection::look_for_end() {
  arm(Phase::held);
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

// The deadline of a phase counts from its beginning, however often it has to wait in it.
void HorovodServer::Connection::arm(Phase next) {
  if (std::exchange(phase_, next) == next) return;
  const HorovodServerLimits& limits = server_->limits;
  deadline_ = Clock::now() + (next == Phase::idle       ? limits.idle
                              : next == Phase::held     ? limits.hold
                              : next == Phase::response ? limits.response
                                                        : limits.request);
  if (!timer_) timer_.emplace(server_->io);
  timer_->expires_at(deadline_);
  timer_->async_wait([self = shared_from_this()](const auto& ec) {
    // It may have been armed anew, or for nothing, while this call was on its way.
    if (!ec && self->is_open() && self->phase_ != Phase::none && Clock::now() >= self->deadline_)
      self->on_deadline();
  });
}

void HorovodServer::Connection::on_deadline() {
  if (phase_ == Phase::held) {
    auto answer = server_->backend.overdue(id_);
    phase_ = Phase::none;
    if (answer.status == 0) return arm(Phase::held);
    return late_answer(std::move(answer));
  }
  if (phase_ != Phase::request) return close();
  respond_and_close(408);
  advance();
}

void HorovodServer::Connection::close() {
  if (!is_open()) return;
  drop();
  if (!std::exchange(server_->full, false)) return;
  asio::post(server_->io, [state = server_] {
    if (!state->closed) state->accept_some();
  });
}

void HorovodServer::Connection::drop() {
  server_->held -= counted_;
  if (waiting_) server_->backend.forget(id_);
  timer_.reset();
  waiter_.reset();
  fd_.reset();
  server_->open.erase(id_);
}

HorovodServer::HorovodServer(asio::io_context& io, UniqueFd listener, HorovodBackend& backend,
                             OnTrouble on_trouble, HorovodServerLimits limits)
    : state_(std::make_shared<State>(io, std::move(listener), backend, std::move(on_trouble),
                                     limits)) {
  state_->wait();
}

HorovodServer::~HorovodServer() {
  state_->closed = true;
  boost::system::error_code ignored;
  state_->listener.close(ignored);
  state_->pause.reset();
  while (!state_->open.empty()) {
    const auto connection = state_->open.begin()->second;
    connection->drop();
  }
}

void HorovodServer::answer(HorovodBackend::Waiter waiter, HorovodAnswer answer) {
  const auto found = state_->open.find(waiter);
  if (found == state_->open.end()) return;
  const auto connection = found->second;  // it may go with its answer
  connection->late_answer(std::move(answer));
}

void HorovodServer::answer_soon(HorovodBackend::Waiter waiter, HorovodAnswer answer) {
  asio::post(state_->io, [state = state_, waiter, answer = std::move(answer)]() mutable {
    const auto found = state->open.find(waiter);
    if (found == state->open.end()) return;
    const auto connection = found->second;
    connection->late_answer(std::move(answer));
  });
}

std::size_t HorovodServer::open_connections() const { return state_->open.size(); }

}  // namespace hvdrun
