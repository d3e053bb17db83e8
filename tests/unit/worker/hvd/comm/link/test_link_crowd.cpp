// More connections in the making than any limit of ours: with real sockets, against ranks that the
// test plays.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "common/base/descriptor_limit.h"
#include "common/base/unique_fd.h"
#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "worker/hvd/comm/link/link_handshake.h"
#include "worker/hvd/comm/link/link_set.h"
#include "worker/hvd/comm/link/socket_address.h"

using namespace hvdrun;
using namespace hvdrun::test;
using std::chrono::milliseconds;

namespace {

const std::string kCrowdKey(32, 'k');
constexpr milliseconds kCrowdTime{60'000};

const sockaddr* sockaddr_of(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.address);
}

// One end of a connection in the making, of a rank that the test plays.
class PlayedRank {
 public:
  enum class State { busy, done, closed };

  PlayedRank(UniqueFd socket, LinkHandshake handshake)
      : socket_(std::move(socket)), handshake_(std::move(handshake)) {}

  static PlayedRank dialing(std::uint32_t rank, std::uint32_t peer, const SocketAddress& to) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    REQUIRE(socket);
    REQUIRE((::connect(socket.get(), sockaddr_of(to), to.bytes) == 0 || errno == EINPROGRESS));
    return {std::move(socket),
            LinkHandshake::connecting(kCrowdKey, {1, 0, rank}, peer, std::string(16, 'a'))};
  }

  int fd() const { return socket_.get(); }
  bool has_spoken() const { return has_spoken_; }
  State step() {
    while (state_ == State::busy) {
      output_ += handshake_.take_output();
      if (!output_.empty()) {
        const ssize_t sent = ::send(fd(), output_.data(), output_.size(), MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
        if (sent < 0) return state_ = State::closed;
        output_.erase(0, static_cast<std::size_t>(sent));
        has_spoken_ = true;
        continue;
      }
      if (handshake_.state() == LinkHandshake::State::done) return state_ = State::done;
      if (handshake_.state() == LinkHandshake::State::refused) return state_ = State::closed;
      std::string part(handshake_.wanted() - input_.size(), '\0');
      const ssize_t got = ::recv(fd(), part.data(), part.size(), 0);
      if (got < 0 && errno == EAGAIN) break;
      if (got <= 0) return state_ = State::closed;
      input_.append(part, 0, static_cast<std::size_t>(got));
      if (input_.size() == handshake_.wanted()) handshake_.feed(std::exchange(input_, {}));
    }
    return state_;
  }

 private:
  UniqueFd socket_;
  LinkHandshake handshake_;
  std::string input_;
  std::string output_;
  bool has_spoken_ = false;
  State state_ = State::busy;
};

// Steps all of them, over and over, until `done` says so or the time is over.
template <class Done>
bool play(std::vector<PlayedRank>& crowd, const Done& done) {
  const auto deadline = std::chrono::steady_clock::now() + kCrowdTime;
  while (std::chrono::steady_clock::now() < deadline) {
    std::vector<pollfd> polled;
    for (PlayedRank& rank : crowd)
      if (rank.step() == PlayedRank::State::busy)
        polled.push_back(
            {rank.fd(), static_cast<short>(rank.has_spoken() ? POLLIN : POLLIN | POLLOUT), 0});
    if (done()) return true;
    ::poll(polled.data(), polled.size(), 10);
  }
  return false;
}

std::size_t count_of(std::vector<PlayedRank>& crowd, PlayedRank::State state) {
  return static_cast<std::size_t>(std::count_if(
      crowd.begin(), crowd.end(), [&](PlayedRank& rank) { return rank.step() == state; }));
}

std::size_t longest_backlog() {
  std::size_t most = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> most;
  return most;
}

// As a rank's process has them usually; the test's own sockets are many.
bool has_descriptors(std::size_t wanted) {
  raise_descriptor_limit();
  const bool enough = raise_descriptor_limit() >= wanted;
  if (!enough) WARN("left out: it needs " << wanted << " descriptors (ulimit -Hn)");
  return enough;
}

std::unique_ptr<LinkSet> make_rank(std::uint32_t rank, bool encrypt = false) {
  return std::make_unique<LinkSet>(
      LinkSet::Options{{1, 0, rank}, kCrowdKey, "127.0.0.1", {}, encrypt});
}

// A real rank that connects to all others, in a thread of its own.
class ConnectingRank {
 public:
  ConnectingRank(LinkSet& set, std::vector<std::size_t> ranks)
      : thread_([this, &set, ranks = std::move(ranks)] {
          error_ = error_of([&] {
            set.begin(0, {.timeout = kCrowdTime});
            set.connect(ranks);
          });
          is_over_ = true;
        }) {}
  bool is_over() const { return is_over_; }
  std::string join() {
    thread_.join();
    return error_ ? error_->text : "";
  }

 private:
  std::optional<RankError> error_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

std::vector<std::size_t> all_but(std::size_t own, std::size_t size) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < size; ++rank)
    if (rank != own) ranks.push_back(rank);
  return ranks;
}

}  // namespace

TEST_CASE("1500 ranks that dial one at the same moment are all let in", "[links][crowd]") {
  constexpr std::uint32_t kRanks = 1500;
  if (!has_descriptors(2 * kRanks + 200)) return;
  const auto set = make_rank(kRanks);
  const SocketAddress target = SocketAddress::parse(set->endpoint());
  set->set_peers(HostLayout(std::vector<std::size_t>(kRanks + 1, 1)),
                 std::vector<std::string>(kRanks + 1, set->endpoint()));
  std::vector<PlayedRank> crowd;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    crowd.push_back(PlayedRank::dialing(rank, kRanks, target));
  // So many have said hello before the first is let in, as far as the kernel lets them.
  const std::size_t waiting = std::min<std::size_t>(1025, longest_backlog());
  const auto has_spoken = [](const PlayedRank& rank) { return rank.has_spoken(); };
  REQUIRE(play(crowd, [&] {
    return static_cast<std::size_t>(std::count_if(crowd.begin(), crowd.end(), has_spoken)) >=
           waiting;
  }));
  ConnectingRank real(*set, all_but(kRanks, kRanks + 1));
  CHECK(
      play(crowd, [&] { return count_of(crowd, PlayedRank::State::busy) == 0 || real.is_over(); }));
  // Else it would wait for those who were turned away.
  const std::size_t closed = count_of(crowd, PlayedRank::State::closed);
  if (closed > 0) set->abort({hvd::ErrorCode::internal, "ranks were turned away"});
  CHECK(real.join().empty());
  CHECK(closed == 0);
}

TEST_CASE("a rank that dials 1100 others still lets those in who dial it", "[links][crowd]") {
  constexpr std::uint32_t kLower = 10;
  constexpr std::uint32_t kHigher = 1100;
  if (!has_descriptors(2 * (kLower + kHigher) + 200)) return;
  const auto set = make_rank(kLower);
  // One listener plays all higher ranks.
  const SocketAddress address = SocketAddress::of("127.0.0.1", 0);
  const UniqueFd other_end(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  REQUIRE(::bind(other_end.get(), sockaddr_of(address), address.bytes) == 0);
  REQUIRE(::listen(other_end.get(), 1 << 16) == 0);
  SocketAddress bound = address;
  bound.bytes = sizeof bound.address;
  REQUIRE(::getsockname(other_end.get(), reinterpret_cast<sockaddr*>(&bound.address),
                        &bound.bytes) == 0);
  constexpr std::uint32_t kSize = kLower + 1 + kHigher;
  set->set_peers(HostLayout(std::vector<std::size_t>(kSize, 1)),
                 std::vector<std::string>(kSize, bound.text()));
  ConnectingRank real(*set, all_but(kLower, kSize));
  // Those who are dialed do not answer before those who dial are in.
  std::vector<UniqueFd> accepted;
  const auto accept_some = [&] {
    for (int fd = 0; fd >= 0;) {
      fd = ::accept4(other_end.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) accepted.emplace_back(fd);
    }
  };
  std::vector<PlayedRank> lower;
  for (std::uint32_t rank = 0; rank < kLower; ++rank)
    lower.push_back(PlayedRank::dialing(rank, kLower, SocketAddress::parse(set->endpoint())));
  CHECK(play(lower, [&] {
    accept_some();
    return count_of(lower, PlayedRank::State::busy) == 0;
  }));
  const std::size_t let_in = count_of(lower, PlayedRank::State::done);
  CHECK(let_in == kLower);
  if (let_in < kLower) set->abort({hvd::ErrorCode::internal, "ranks were turned away"});
  CHECK(accepted.size() <= 256);
  // They learn from the greeting who they are: the rank that is dialed stands in it.
  std::vector<PlayedRank> higher;
  std::size_t greeted = 0;
  const auto answer = [&] {
    accept_some();
    for (; greeted < accepted.size(); ++greeted) {
      std::uint32_t words[6] = {};
      pollfd wait{accepted[greeted].get(), POLLIN, 0};
      REQUIRE(::poll(&wait, 1, static_cast<int>(kCrowdTime.count())) == 1);
      REQUIRE(::recv(accepted[greeted].get(), words, sizeof words, MSG_PEEK) == sizeof words);
      higher.emplace_back(
          std::move(accepted[greeted]),
          LinkHandshake::accepting(kCrowdKey, {1, 0, words[5]}, std::string(16, 'b')));
    }
    return count_of(higher, PlayedRank::State::done) == kHigher || real.is_over();
  };
  CHECK(play(higher, answer));
  CHECK(real.join().empty());
}

TEST_CASE("strangers who say nothing do not keep ranks out", "[links][crowd]") {
  const bool encrypt = GENERATE(false, true);
  CAPTURE(encrypt);
  constexpr std::size_t kStrangers = 1100;
  if (!has_descriptors(2 * kStrangers + 200)) return;
  const auto lower = make_rank(0, encrypt);
  const auto upper = make_rank(1, encrypt);
  const std::vector<std::string> endpoints{lower->endpoint(), upper->endpoint()};
  for (LinkSet* const set : {lower.get(), upper.get()})
    set->set_peers(HostLayout({1, 1}), endpoints);
  const SocketAddress target = SocketAddress::parse(upper->endpoint());
  std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < std::min(kStrangers, longest_backlog()); ++i) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(strangers.back().get(), sockaddr_of(target), target.bytes);
  }
  ConnectingRank dialing(*lower, {1});
  ConnectingRank dialed(*upper, {0});
  const std::string fault = dialing.join();
  CHECK(fault.empty());
  if (!fault.empty()) upper->abort({hvd::ErrorCode::internal, "nobody will come"});
  CHECK(dialed.join().empty());
}

TEST_CASE("a rank takes more descriptors than the soft limit, and leaves low numbers to others",
          "[links][crowd]") {
  constexpr std::uint32_t kRanks = 900;
  if (!has_descriptors(2 * kRanks + FD_SETSIZE)) return;
  const auto set = make_rank(kRanks);
  const SocketAddress target = SocketAddress::parse(set->endpoint());
  set->set_peers(HostLayout(std::vector<std::size_t>(kRanks + 1, 1)),
                 std::vector<std::string>(kRanks + 1, set->endpoint()));
  std::vector<PlayedRank> crowd;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    crowd.push_back(PlayedRank::dialing(rank, kRanks, target));
  }
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = FD_SETSIZE;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  ConnectingRank real(*set, all_but(kRanks, kRanks + 1));
  CHECK(
      play(crowd, [&] { return count_of(crowd, PlayedRank::State::busy) == 0 || real.is_over(); }));
  const std::size_t closed = count_of(crowd, PlayedRank::State::closed);
  if (closed > 0) set->abort({hvd::ErrorCode::internal, "ranks were turned away"});
  CHECK(real.join().empty());
  CHECK(closed == 0);
  // As a program's own file would get it.
  const int own = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(own < FD_SETSIZE);
  ::close(own);
  ::setrlimit(RLIMIT_NOFILE, &before);
}
