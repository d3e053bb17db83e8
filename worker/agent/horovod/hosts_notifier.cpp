#include "worker/agent/horovod/hosts_notifier.h"

#include <array>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "common/horovod/hosts_notice.h"

namespace hvdrun {

namespace asio = boost::asio;
using asio::ip::tcp;

// One notice. An attempt is one connection; whatever of an earlier one comes late is dropped.
class HostsNotifier::Telling : public std::enable_shared_from_this<Telling> {
 public:
  Telling(asio::io_context& io, HorovodNotice notice, Times times, OnTrouble on_trouble)
      : socket_(io),
        timer_(io),
        notice_(std::move(notice)),
        times_(times),
        on_trouble_(std::move(on_trouble)),
        request_(hosts_notice(notice_.key, notice_.number)) {}

  void start() { try_next(); }
  void stop() {
    over_ = true;
    ++attempt_;
    close();
    timer_.cancel();
  }
  // Whatever still comes is dropped.
  void abandon() noexcept { over_ = true; }
  bool is_taken() const { return taken_; }

 private:
  // The handler, as long as nothing has come after `attempt`.
  template <class Handler>
  auto when(std::uint64_t attempt, Handler handler) {
    return [self = shared_from_this(), attempt, handler](const auto&... what) {
      if (!self->over_ && self->attempt_ == attempt) handler(what...);
    };
  }

  void close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  void try_next() {
    if (over_) return;
    if (next_ == notice_.endpoints.size()) return pause();
    const HorovodEndpoint& endpoint = notice_.endpoints[next_++];
    boost::system::error_code ec;
    const auto address = asio::ip::make_address(endpoint.address, ec);
    if (ec) return fail("it gives '" + endpoint.address + "' as its address");
    const std::uint64_t attempt = ++attempt_;
    timer_.expires_after(times_.limit);
    timer_.async_wait(when(attempt, [this](const auto& failed) {
      if (!failed) fail("it does not answer");
    }));
    socket_.async_connect(tcp::endpoint(address, endpoint.port),
                          when(attempt, [this](const auto& failed) {
                            if (failed) return fail(failed.message());
                            write();
                          }));
  }

  void write() {
    asio::async_write(socket_, asio::buffer(request_),
                      when(attempt_, [this](const auto& failed, std::size_t = 0) {
                        if (failed) return fail(failed.message());
                        read_head();
                      }));
  }

  void read_head() {
    reply_.resize(kNoticeHead);
    asio::async_read(socket_, asio::buffer(reply_),
                     when(attempt_, [this](const auto& failed, std::size_t = 0) {
                       const std::size_t size = failed ? 0 : notice_reply_size(reply_);
                       if (size == 0) return fail("it does not answer as Horovod does");
                       reply_.resize(kNoticeHead + size);
                       read_body();
                     }));
  }

  void read_body() {
    asio::async_read(socket_,
                     asio::buffer(reply_.data() + kNoticeHead, reply_.size() - kNoticeHead),
                     when(attempt_, [this](const auto& failed, std::size_t = 0) {
                       if (failed || !is_notice_taken(notice_.key, reply_))
                         return fail("it does not answer as Horovod does");
                       taken_ = true;
                       close();
                       again();
                     }));
  }

  void fail(std::string why) {
    why_ = std::move(why);
    ++attempt_;
    close();
    try_next();
  }

  void pause() {
    if (!taken_ && !std::exchange(told_, true))
      on_trouble_("slot " + std::to_string(notice_.slot) +
                  " cannot be told yet that hosts have come or gone: " +
                  (why_.empty() ? "it gives no address" : why_));
    again();
  }

  void again() {
    next_ = 0;
    timer_.expires_after(times_.pause);
    timer_.async_wait(when(++attempt_, [this](const auto& failed) {
      if (!failed) try_next();
    }));
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  HorovodNotice notice_;
  Times times_;
  OnTrouble on_trouble_;
  std::string request_;
  std::string reply_;
  std::string why_;
  std::size_t next_ = 0;  // endpoint
  std::uint64_t attempt_ = 0;
  bool taken_ = false;
  bool told_ = false;
  bool over_ = false;
};

HostsNotifier::HostsNotifier(asio::io_context& io, OnTrouble on_trouble)
    : HostsNotifier(io, std::move(on_trouble), Times()) {}

HostsNotifier::HostsNotifier(asio::io_context& io, OnTrouble on_trouble, Times times)
    : io_(io), on_trouble_(std::move(on_trouble)), times_(times) {}

HostsNotifier::~HostsNotifier() {
  if (telling_) telling_->abandon();
}

void HostsNotifier::tell(HorovodNotice notice) {
  stop();
  telling_ = std::make_shared<Telling>(io_, std::move(notice), times_, on_trouble_);
  telling_->start();
}

void HostsNotifier::stop() {
  if (telling_) telling_->stop();
  telling_.reset();
}

bool HostsNotifier::is_busy() const { return telling_ && !telling_->is_taken(); }

}  // namespace hvdrun
