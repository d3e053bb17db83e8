// The agent's notices to Horovod programs, over real sockets, with ranks that are written by hand.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "common/horovod/hosts_notice.h"
#include "common/net/hmac_sha256.h"
#include "tests/catch.h"
#include "worker/agent/horovod/hosts_notifier.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;
using namespace std::string_literals;

const std::string kRankKey(32, 'k');

struct NotifierFixture {
  // A rank: takes connections, reads a request from each, and answers with `reply`; nothing: it
  // says no word.
  struct Rank {
    explicit Rank(NotifierFixture& test, std::string with)
        : reply(std::move(with)), acceptor(test.io, {asio::ip::address_v4::loopback(), 0}) {
      accept();
    }
    void accept() {
      acceptor.async_accept([this](const auto& ec, tcp::socket socket) {
        if (ec) return;
        ++connections;
        sockets.push_back(std::make_unique<tcp::socket>(std::move(socket)));
        tcp::socket& one = *sockets.back();
        got.resize(kNoticeHead + 128);
        asio::async_read(one, asio::buffer(got), [this, &one](const auto& failed, std::size_t) {
          if (!failed && !reply.empty()) asio::write(one, asio::buffer(reply));
        });
        accept();
      });
    }
    HorovodEndpoint endpoint() const { return {"127.0.0.1", acceptor.local_endpoint().port()}; }

    std::string reply;
    tcp::acceptor acceptor;
    std::vector<std::unique_ptr<tcp::socket>> sockets;
    std::string got;
    int connections = 0;
  };

  static std::string ack(const std::string& key = kRankKey) {
    const std::string body = "AckResponse";
    return hmac_sha256(key, body) + static_cast<char>(body.size()) + "\0\0\0"s + body;
  }
  bool run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io.run_for(1ms);
      io.restart();
    }
    return true;
  }
  bool run_to_end() {
    return run_until([this] { return !notifier.is_busy(); });
  }

  asio::io_context io;
  std::vector<std::string> troubles;
  HostsNotifier notifier{
      io, [this](const std::string& trouble) { troubles.push_back(trouble); }, {200ms, 20ms}};
};

TEST_CASE_METHOD(NotifierFixture, "a rank takes a notice", "[hosts_notifier]") {
  Rank rank(*this, ack());
  notifier.tell({3, 7, {rank.endpoint()}, kRankKey});
  CHECK(notifier.is_busy());
  REQUIRE(run_to_end());
  CHECK(rank.got == hosts_notice(kRankKey, 7));
  CHECK(rank.connections == 1);
  CHECK(troubles.empty());
}

TEST_CASE_METHOD(NotifierFixture, "an address that does not answer is followed by the next",
                 "[hosts_notifier]") {
  Rank silent(*this, "");
  Rank stranger(*this, ack("another key"));
  Rank garbage(*this, std::string(200, '\xff'));
  Rank rank(*this, ack());
  HorovodEndpoint closed;
  {
    const Rank gone(*this, "");
    closed = gone.endpoint();
  }
  notifier.tell({3,
                 7,
                 {closed,
                  silent.endpoint(),
                  stranger.endpoint(),
                  garbage.endpoint(),
                  {"no address", 9},
                  rank.endpoint()},
                 kRankKey});
  REQUIRE(run_to_end());
  CHECK(stranger.connections == 1);
  CHECK(garbage.connections == 1);
  CHECK(rank.connections == 1);
  CHECK(troubles.empty());
}

TEST_CASE_METHOD(NotifierFixture, "it is tried until it is taken, and said once",
                 "[hosts_notifier]") {
  Rank rank(*this, ack("another key"));
  notifier.tell({3, 7, {rank.endpoint()}, kRankKey});
  REQUIRE(run_until([&] { return rank.connections >= 3; }));
  CHECK(troubles == std::vector<std::string>{
                        "slot 3 cannot be told yet that hosts have come or gone: it does not "
                        "answer as Horovod does"});
  rank.reply = ack();
  REQUIRE(run_to_end());
}

TEST_CASE_METHOD(NotifierFixture, "a notice that is stopped or replaced ends", "[hosts_notifier]") {
  Rank silent(*this, "");
  notifier.tell({3, 7, {silent.endpoint()}, kRankKey});
  REQUIRE(run_until([&] { return silent.connections == 1; }));
  Rank rank(*this, ack());
  notifier.tell({4, 8, {rank.endpoint()}, kRankKey});
  REQUIRE(run_to_end());
  CHECK(rank.got == hosts_notice(kRankKey, 8));
  notifier.tell({3, 9, {}, kRankKey});
  REQUIRE(run_until([&] { return !troubles.empty(); }));
  CHECK(troubles.front().find("it gives no address") != std::string::npos);
  notifier.stop();
  CHECK_FALSE(notifier.is_busy());
  silent.acceptor.close();
  rank.acceptor.close();
  silent.sockets.clear();
  rank.sockets.clear();
  io.restart();
  io.run_for(1s);  // nothing is left to do
  CHECK(io.stopped());
}

}  // namespace
}  // namespace hvdrun
