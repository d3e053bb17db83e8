#include "cli/openers/ssh/tcp_dialer.h"

#include <cerrno>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kBetweenAttempts{1};

}  // namespace

bool may_pass(const boost::system::error_code& fault) {
  namespace errc = boost::system::errc;
  for (const auto passing :
       {errc::connection_refused, errc::connection_reset, errc::host_unreachable,
        errc::network_unreachable, errc::network_down, errc::timed_out})
    if (fault == passing) return true;
  return fault.value() == EHOSTDOWN;
}

void TcpDialer::dial(NameResolver::Endpoints endpoints, std::chrono::milliseconds limit,
                     int attempts, Handler handler) {
  endpoints_ = std::move(endpoints);
  limit_ = limit;
  attempts_left_ = attempts;
  handler_ = std::move(handler);
  begin_attempt();
}

void TcpDialer::stop() {
  handler_ = nullptr;
  timer_.cancel();
}

void TcpDialer::begin_attempt() {
  --attempts_left_;
  begun_ = std::chrono::steady_clock::now();
  next_ = 0;
  try_next();
}

void TcpDialer::try_next() {
  const Endpoint& endpoint = endpoints_[next_++];
  boost::system::error_code ignored;
  if (socket_.is_open()) socket_.close(ignored);
  is_late_ = false;
  timer_.expires_at(begun_ +
                    limit_ * static_cast<int>(next_) / static_cast<int>(endpoints_.size()));
  // One that has come as the attempt failed by itself is not of the next.
  timer_.async_wait([this, attempt = ++attempt_](const auto& ec) {
    if (ec || !handler_ || attempt != attempt_) return;
    is_late_ = true;
    boost::system::error_code closed;
    socket_.cancel(closed);
  });
  socket_.async_connect(endpoint, [this](const auto& ec) { on_tried(ec); });
}

void TcpDialer::on_tried(boost::system::error_code ec) {
  if (!handler_) return;
  timer_.cancel();
  const Endpoint& endpoint = endpoints_[next_ - 1];
  if (ec && is_late_) ec = boost::asio::error::timed_out;
  if (!ec) return std::exchange(handler_, nullptr)(ec, endpoint);
  if (next_ < endpoints_.size()) return try_next();
  if (attempts_left_ <= 0) return std::exchange(handler_, nullptr)(ec, endpoint);
  timer_.expires_after(kBetweenAttempts);
  timer_.async_wait([this](const auto& stopped) {
    if (!stopped && handler_) begin_attempt();
  });
}

}  // namespace hvdrun
