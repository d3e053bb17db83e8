#include "tests/integration/programs/many_requests.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hvdrun::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeadBytes = 4096;
constexpr int kReceiveBuffer = 512 << 10;

std::string last_error(const char* what) {
  return std::string(what) + ": " + std::system_category().message(errno);
}

}  // namespace

std::string http_request(const std::string& method, const std::string& path,
                         const std::string& host, const std::string& body) {
  return method + " " + path + " HTTP/1.1\r\nHost: " + host +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

ManyRequests::ManyRequests(const std::string& address, std::uint16_t port)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  address_.sin_family = AF_INET;
  address_.sin_port = htons(port);
  if (epoll_ < 0 || ::inet_pton(AF_INET, address.c_str(), &address_.sin_addr) != 1)
    throw std::runtime_error("cannot ask " + address);
}

ManyRequests::~ManyRequests() {
  for (const auto& [fd, request] : under_way_) ::close(fd);
  ::close(epoll_);
}

void ManyRequests::start(std::string request, Done done) {
  waiting_.emplace_back();
  waiting_.back().bytes = std::move(request);
  waiting_.back().done = std::move(done);
}

void ManyRequests::after(std::chrono::milliseconds pause, std::function<void()> call) {
  timers_.emplace_back(Clock::now() + pause, std::move(call));
}

bool ManyRequests::run(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  std::array<epoll_event, 256> events{};
  while (!waiting_.empty() || !under_way_.empty() || !timers_.empty()) {
    for (auto now = Clock::now(); !timers_.empty() && timers_.front().first <= now;) {
      const auto call = std::move(timers_.front().second);
      timers_.pop_front();
      call();
    }
    while (!waiting_.empty()) {
      Request request = std::move(waiting_.front());
      waiting_.pop_front();
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      // Whole answers fit, so that none waits for the window to open again.
      (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
      const auto* const to = reinterpret_cast<const sockaddr*>(&address_);
      if (fd < 0 || (::connect(fd, to, sizeof address_) != 0 && errno != EINPROGRESS)) {
        fail(request, last_error("connect"));
        finish(fd, std::move(request));
        continue;
      }
      // No answer can have come yet: it is asked for once epoll says so.
      if (!send_some(fd, request)) {
        finish(fd, std::move(request));
        continue;
      }
      epoll_event event{};
      event.events = EPOLLIN | (request.sent < request.bytes.size() ? EPOLLOUT : 0U);
      event.data.fd = fd;
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
      under_way_.emplace(fd, std::move(request));
    }
    const auto now = Clock::now();
    if (now >= end) return false;
    auto until = end;
    if (!timers_.empty()) until = std::min(until, timers_.front().first);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    if (under_way_.empty() && timers_.empty()) continue;
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(std::max<long>(wait, 0)));
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      const auto found = under_way_.find(fd);
      const bool was_sending = found->second.sent < found->second.bytes.size();
      if (advance(fd, found->second)) {
        if (was_sending && found->second.sent == found->second.bytes.size()) {
          epoll_event event{};
          event.events = EPOLLIN;
          event.data.fd = fd;
          ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
        }
        continue;
      }
      Request request = std::move(found->second);
      under_way_.erase(found);
      finish(fd, std::move(request));
    }
  }
  return true;
}

bool ManyRequests::send_some(int fd, Request& request) {
  while (request.sent < request.bytes.size()) {
    const ssize_t done = ::send(fd, request.bytes.data() + request.sent,
                                request.bytes.size() - request.sent, MSG_NOSIGNAL);
    if (done < 0 && (errno == EAGAIN || errno == ENOTCONN)) return true;
    if (done < 0) {
      fail(request, last_error("send"));
      return false;
    }
    request.sent += static_cast<std::size_t>(done);
  }
  return true;
}

bool ManyRequests::advance(int fd, Request& request) {
  if (!send_some(fd, request)) return false;
  if (request.sent < request.bytes.size()) return true;
  while (request.head_size == 0 || request.got < request.length) {
    std::array<char, kHeadBytes> buffer;
    const bool in_head = request.head_size == 0;
    // Bytes behind the head are counted, not copied.
    const ssize_t got = in_head ? ::recv(fd, buffer.data(), buffer.size(), 0)
                                : ::recv(fd, nullptr, request.length - request.got, MSG_TRUNC);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) {
      fail(request, got == 0 ? "closed without an answer" : last_error("recv"));
      return false;
    }
    if (!in_head) {
      request.got += static_cast<std::size_t>(got);
      continue;
    }
    request.head.append(buffer.data(), static_cast<std::size_t>(got));
    if (!read_head(request)) return false;
  }
  return false;
}

// Horovod's way: the second word of the first line, and exactly "Content-Length".
bool ManyRequests::read_head(Request& request) {
  const auto end = request.head.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (request.head.size() < kHeadBytes) return true;
    fail(request, "an answer without end");
    return false;
  }
  const std::string name = "\r\nContent-Length: ";
  const auto at = request.head.find(name);
  const auto space = request.head.find(' ');
  if (at == std::string::npos || at > end || space > end) {
    fail(request, "no Content-Length");
    return false;
  }
  request.status = std::atoi(request.head.c_str() + space);
  request.length = std::strtoul(request.head.c_str() + at + name.size(), nullptr, 10);
  request.head_size = end + 4;
  request.got = request.head.size() - request.head_size;
  return true;
}

void ManyRequests::finish(int fd, Request request) {
  if (fd >= 0) ::close(fd);
  ++finished_;
  HttpAnswer answer{request.status, {}, request.length};
  if (request.head_size > 0)
    answer.begin = std::string_view(request.head).substr(request.head_size);
  request.done(answer);
}

void ManyRequests::fail(Request& request, const std::string& what) {
  request.status = 0;
  ++lost_;
  if (trouble_.empty()) trouble_ = what;
}

}  // namespace hvdrun::test
