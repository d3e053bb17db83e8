// Data connections between hosts: who may make one, and what comes over it.
#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "worker/hvd/comm/link/link.h"
#include "worker/hvd/comm/link/link_handshake.h"
#include "worker/hvd/comm/link/link_set.h"
#include "worker/hvd/comm/link/link_tls.h"
#include "worker/hvd/comm/link/socket_address.h"

using namespace hvdrun;
using namespace hvdrun::test;
using std::chrono::milliseconds;
using State = LinkHandshake::State;

namespace {

const std::string kKey(32, 'k');
const std::string kNonceA(16, 'a');
const std::string kNonceB(16, 'b');

// Both sides until neither has anything to say.
void converse(LinkHandshake& connecting, LinkHandshake& accepting) {
  for (int turn = 0; turn < 4; ++turn) {
    if (const std::string said = connecting.take_output(); !said.empty()) accepting.feed(said);
    if (const std::string said = accepting.take_output(); !said.empty()) connecting.feed(said);
  }
}

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace

TEST_CASE("two ranks of one job prove it to each other", "[links]") {
  auto connecting = LinkHandshake::connecting(kKey, {1, 2, 3}, 4, kNonceA);
  auto accepting = LinkHandshake::accepting(kKey, {1, 2, 4}, kNonceB);
  converse(connecting, accepting);
  CHECK(connecting.state() == State::done);
  CHECK(accepting.state() == State::done);
  CHECK(accepting.peer() == 3);
  CHECK(connecting.peer() == 4);
}

TEST_CASE("who is not of this job is refused", "[links]") {
  const auto refused = [](const std::string& key, LinkIdentity own, std::uint32_t peer) {
    auto connecting = LinkHandshake::connecting(key, own, peer, kNonceA);
    auto accepting = LinkHandshake::accepting(kKey, {1, 2, 4}, kNonceB);
    converse(connecting, accepting);
    // Another key shows at the connecting side first, anything else at the accepting one.
    return accepting.state() != State::done && connecting.state() != State::done;
  };
  CHECK_FALSE(refused(kKey, {1, 2, 3}, 4));
  CHECK(refused(std::string(32, 'x'), {1, 2, 3}, 4));
  CHECK(refused(kKey, {9, 2, 3}, 4));
  CHECK(refused(kKey, {1, 9, 3}, 4));
  CHECK(refused(kKey, {1, 2, 3}, 5));
}

TEST_CASE("a proof of another conversation, or a changed one, is refused", "[links]") {
  auto connecting = LinkHandshake::connecting(kKey, {1, 2, 3}, 4, kNonceA);
  auto accepting = LinkHandshake::accepting(kKey, {1, 2, 4}, kNonceB);
  const std::string hello = connecting.take_output();
  accepting.feed(hello);
  connecting.feed(accepting.take_output());
  const std::string proof = connecting.take_output();
  auto other = LinkHandshake::accepting(kKey, {1, 2, 4}, std::string(16, 'c'));
  other.feed(hello);
  static_cast<void>(other.take_output());
  other.feed(proof);
  CHECK(other.state() == State::refused);
  for (std::size_t at = 0; at < proof.size(); ++at) {
    auto fresh = LinkHandshake::accepting(kKey, {1, 2, 4}, kNonceB);
    fresh.feed(hello);
    static_cast<void>(fresh.take_output());
    std::string changed = proof;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    fresh.feed(changed);
    CHECK(fresh.state() == State::refused);
  }
}

TEST_CASE("messages come whole, in order, whatever their sizes", "[links]") {
  auto [a, b] = socket_pair();
  Link left(std::move(a), 1);
  Link right(std::move(b), 0);
  std::vector<std::vector<char>> sent;
  std::vector<std::vector<char>> received;
  for (const std::size_t bytes : {0, 1, 15, 16, 8191, 8192, 8193, 100'000, 3'000'000, 0, 7}) {
    sent.emplace_back(bytes);
    for (std::size_t i = 0; i < bytes; ++i) sent.back()[i] = static_cast<char>(i * 31 + bytes);
    received.emplace_back(bytes, 'x');
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    left.send(static_cast<std::uint32_t>(i), sent[i].data(), sent[i].size());
    // Some are there before anybody wants them.
    if (i >= 3)
      right.receive(static_cast<std::uint32_t>(i - 3), received[i - 3].data(),
                    received[i - 3].size());
    left.progress();
    right.progress();
  }
  for (std::size_t i = sent.size() - 3; i < sent.size(); ++i)
    right.receive(static_cast<std::uint32_t>(i), received[i].data(), received[i].size());
  for (int turn = 0; turn < 100'000 && right.unreceived() > 0; ++turn) {
    left.progress();
    right.progress();
  }
  CHECK(left.unsent() == 0);
  CHECK(right.unreceived() == 0);
  CHECK(sent == received);
}

TEST_CASE("a message leaves from pieces and comes into others", "[links]") {
  const auto seed = test::soak_seed("pieces of messages");
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto [a, b] = socket_pair();
  Link left(std::move(a), 1);
  Link right(std::move(b), 0);
  for (std::uint32_t round = 0; round < 50; ++round) {
    std::vector<char> sent(random() % (std::size_t{1} << (random() % 22)));
    for (char& byte : sent) byte = static_cast<char>(random());
    std::vector<char> received(sent.size());
    // Many small ones, or few; an empty one is none.
    const auto cut = [&](char* data) {
      const std::size_t most = std::size_t{1} << (random() % 18);
      MessageMemory memory;
      for (std::size_t done = 0; done < sent.size();) {
        const std::size_t part = std::min<std::size_t>(random() % (most + 1), sent.size() - done);
        memory.add(data + done, part);
        done += part;
      }
      return memory;
    };
    left.send(round, cut(sent.data()));
    right.receive(round, cut(received.data()));
    for (int turn = 0; turn < 1'000'000 && right.unreceived() > 0; ++turn) {
      left.progress();
      right.progress();
    }
    CHECK(left.unsent() == 0);
    CHECK(right.unreceived() == 0);
    CHECK(sent == received);
  }
}

namespace {

// Two encrypted ends and what passes between them, which the test carries over by hand.
struct TlsPair {
  TlsPair(const std::string& key_a, const std::string& key_b) : tls_a(key_a), tls_b(key_b) {
    auto near_a = socket_pair();
    auto near_b = socket_pair();
    a = tls_a.over(std::move(near_a.first), false);
    b = tls_b.over(std::move(near_b.first), true);
    wire_a = std::move(near_a.second);
    wire_b = std::move(near_b.second);
  }
  void carry() {
    for (const auto& [from, to] :
         {std::pair(wire_a.get(), wire_b.get()), std::pair(wire_b.get(), wire_a.get())}) {
      char bytes[4096];
      const ssize_t got = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
      if (got <= 0) continue;
      seen.append(bytes, static_cast<std::size_t>(got));
      if (change_at > 0 && seen.size() > change_at) {
        bytes[got / 2] = static_cast<char>(bytes[got / 2] ^ 1);
        change_at = 0;
      }
      REQUIRE(::send(to, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL) == got);
    }
  }
  // The progress that both ends came to.
  std::pair<LinkTls::Channel::Progress, LinkTls::Channel::Progress> handshakes() {
    auto of_a = a->handshake();
    auto of_b = b->handshake();
    for (int turn = 0; turn < 20; ++turn) {
      carry();
      using enum LinkTls::Channel::Progress;
      if (of_a != done && of_a != failed) of_a = a->handshake();
      if (of_b != done && of_b != failed) of_b = b->handshake();
    }
    return {of_a, of_b};
  }

  LinkTls tls_a;
  LinkTls tls_b;
  std::unique_ptr<LinkTls::Channel> a;
  std::unique_ptr<LinkTls::Channel> b;
  UniqueFd wire_a;
  UniqueFd wire_b;
  std::string seen;
  std::size_t change_at = 0;  // 0: nothing is changed
};

}  // namespace

TEST_CASE("encrypted messages come whole, and nobody else can read them", "[links][tls]") {
  using Progress = LinkTls::Channel::Progress;
  TlsPair pair(kKey, kKey);
  REQUIRE(pair.handshakes() == std::pair(Progress::done, Progress::done));
  Link left(std::move(pair.a), 1);
  Link right(std::move(pair.b), 0);
  std::vector<std::string> sent;
  std::vector<std::string> received;
  for (const std::size_t bytes : {0, 1, 16'367, 16'368, 16'369, 16'384, 100'000, 3'000'000, 0, 7}) {
    sent.emplace_back(bytes, 'q');
    received.emplace_back(bytes, 'x');
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    left.send(static_cast<std::uint32_t>(i), sent[i].data(), sent[i].size());
    right.receive(static_cast<std::uint32_t>(i), received[i].data(), received[i].size());
  }
  for (int turn = 0; turn < 100'000 && right.unreceived() > 0; ++turn) {
    left.progress();
    pair.carry();
    right.progress();
  }
  CHECK(left.unsent() == 0);
  CHECK(sent == received);
  CHECK(pair.seen.size() > 3'100'000);
  CHECK(pair.seen.find("qqqqqqqq") == std::string::npos);
  // Last words too.
  right.give_up({hvd::ErrorCode::timeout, "waited 3 s for rank 2"});
  pair.carry();
  left.progress();
  REQUIRE(left.failure().has_value());
  CHECK(left.failure()->what() == std::string("waited 3 s for rank 2"));
}

TEST_CASE("an encrypted byte that was changed on its way ends the connection", "[links][tls]") {
  TlsPair pair(kKey, kKey);
  pair.handshakes();
  pair.change_at = pair.seen.size() + 10'000;
  Link left(std::move(pair.a), 1);
  Link right(std::move(pair.b), 0);
  const std::string sent(100'000, 'q');
  std::string received(sent.size(), 'x');
  left.send(1, sent.data(), sent.size());
  right.receive(1, received.data(), received.size());
  for (int turn = 0; turn < 1'000; ++turn) {
    left.progress();
    pair.carry();
    right.progress();
  }
  CHECK(right.unreceived() == 1);
  CHECK(right.lost());
}

TEST_CASE("another key gets no encrypted connection", "[links][tls]") {
  TlsPair pair(kKey, std::string(32, 'x'));
  using Progress = LinkTls::Channel::Progress;
  const auto [of_a, of_b] = pair.handshakes();
  CHECK(of_a != Progress::done);
  CHECK(of_b == Progress::failed);
  CHECK_FALSE(pair.b->problem().empty());
}

TEST_CASE("ranks listen at ports of the range", "[links]") {
  const auto make = [](std::uint32_t rank, PortRange ports) {
    return std::make_unique<LinkSet>(
        LinkSet::Options{{1, 0, rank}, kKey, "127.0.0.1", ports, false});
  };
  // Two ports side by side that are free now.
  std::uint16_t first = 0;
  std::vector<std::unique_ptr<LinkSet>> sets;
  for (int tries = 0; tries < 50 && sets.size() < 2; ++tries) {
    sets.clear();
    first = SocketAddress::parse(make(0, {})->endpoint()).port();
    const PortRange both{first, static_cast<std::uint16_t>(first + 1)};
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      static_cast<void>(error_of([&] { sets.push_back(make(rank, both)); }));
  }
  REQUIRE(sets.size() == 2);
  CHECK(sets[0]->endpoint() == "127.0.0.1:" + std::to_string(first));
  CHECK(sets[1]->endpoint() == "127.0.0.1:" + std::to_string(first + 1));
  const PortRange both{first, static_cast<std::uint16_t>(first + 1)};
  const auto error = error_of([&] { make(2, both); });
  REQUIRE(error.has_value());
  CHECK(error->text == "every port of --port-range " + std::to_string(first) + "-" +
                           std::to_string(first + 1) +
                           " is in use at 127.0.0.1; each rank of a job on several hosts needs one "
                           "there");
}

TEST_CASE("what does not fit is an error that says so", "[links]") {
  auto ends = socket_pair();
  Link left(std::move(ends.first), 1);
  UniqueFd& b = ends.second;
  char data[8] = {};
  const auto wrong = [&](std::uint32_t sequence, std::size_t bytes) {
    left.receive(7, data, sizeof data);
    Link right(std::move(b), 0);
    right.send(sequence, data, bytes);
    right.progress();
    return error_of([&] { left.progress(); });
  };
  SECTION("another size") {
    CHECK(wrong(7, 4)->text ==
          "rank 1 sent 4 bytes in its operation 7, this rank expects 8 in its "
          "operation 7");
  }
  SECTION("another operation") { CHECK(wrong(8, 8)->code == hvd::ErrorCode::mismatch); }
  SECTION("noise") {
    left.receive(7, data, sizeof data);
    const std::string noise(64, '\xa5');
    REQUIRE(::send(b.get(), noise.data(), noise.size(), 0) == 64);
    CHECK(error_of([&] { left.progress(); })->text == "rank 1 sent what is no message");
  }
  SECTION("the end, in a message") {
    left.receive(7, data, sizeof data);
    REQUIRE(::send(b.get(), "HVDD", 4, 0) == 4);
    b.reset();
    left.progress();
    CHECK(left.lost());
  }
}

TEST_CASE("last words come even when nobody waits for a message", "[links]") {
  auto [a, b] = socket_pair();
  Link left(std::move(a), 1);
  Link right(std::move(b), 0);
  right.give_up({hvd::ErrorCode::timeout, "waited 3 s for rank 2"});
  left.progress();
  REQUIRE(left.failure().has_value());
  CHECK(left.failure()->code() == hvd::ErrorCode::timeout);
  CHECK(left.failure()->what() == std::string("waited 3 s for rank 2"));
}

TEST_CASE("strangers at a rank's port change nothing", "[links]") {
  const bool encrypt = GENERATE(false, true);
  CAPTURE(encrypt);
  std::vector<std::unique_ptr<LinkSet>> sets;
  std::vector<std::string> endpoints;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    sets.push_back(
        std::make_unique<LinkSet>(LinkSet::Options{{1, 0, rank}, kKey, "127.0.0.1", {}, encrypt}));
    endpoints.push_back(sets.back()->endpoint());
  }
  const SocketAddress target = SocketAddress::parse(endpoints[1]);
  std::vector<UniqueFd> strangers;
  for (const std::string& words : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"),
                                   std::string(40, 'x'), std::string(100'000, 'y')}) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int fd = strangers.back().get();
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&target.address), target.bytes) == 0);
    static_cast<void>(::send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  for (auto& set : sets) set->set_peers(HostLayout({1, 1}), endpoints);
  int answer = 0;
  std::thread accepting([&] {
    sets[1]->begin(0, {.timeout = milliseconds(20'000)});
    sets[1]->connect({0});
    sets[1]->receive(0, &answer, sizeof answer);
    sets[1]->wait_all();
  });
  const int question = 42;
  sets[0]->begin(0, {.timeout = milliseconds(20'000)});
  sets[0]->connect({1});
  sets[0]->send(1, &question, sizeof question);
  sets[0]->wait_all();
  accepting.join();
  CHECK(answer == 42);
}

TEST_CASE("a rank that cannot be reached is named with its address", "[links]") {
  LinkSet set(LinkSet::Options{{1, 0, 0}, kKey, "127.0.0.1", {}, false});
  // A port that was free a moment ago.
  std::string endpoint;
  {
    const LinkSet other(LinkSet::Options{{1, 0, 1}, kKey, "127.0.0.1", {}, false});
    endpoint = other.endpoint();
  }
  set.set_peers(HostLayout({1, 1}), {set.endpoint(), endpoint});
  set.begin(0, {.timeout = milliseconds(20'000)});
  const auto error = error_of([&] { set.connect({1}); });
  REQUIRE(error.has_value());
  CHECK(error->code == hvd::ErrorCode::unavailable);
  CHECK(error->text.find("no connection to rank 1 at " + endpoint + ": Connection refused") == 0);
}

TEST_CASE("who asks meanwhile hears which connections are waited for", "[links]") {
  const auto awaited = std::make_shared<AwaitedLinks>();
  LinkSet set(LinkSet::Options{{1, 0, 0}, kKey, "127.0.0.1", {}, false, {}, awaited});
  LinkSet third(LinkSet::Options{{1, 0, 2}, kKey, "127.0.0.1", {}, false});
  // The kernel takes a connection to this one, and nobody answers.
  const LinkSet deaf(LinkSet::Options{{1, 0, 1}, kKey, "127.0.0.1", {}, false});
  const std::vector<std::string> endpoints{set.endpoint(), deaf.endpoint(), third.endpoint()};
  set.set_peers(HostLayout({1, 1, 1}), endpoints);
  third.set_peers(HostLayout({1, 1, 1}), endpoints);
  CHECK(awaited->ranks().empty());
  std::optional<RankError> error;
  std::thread connecting([&] {
    set.begin(0, {.timeout = milliseconds(20'000)});
    error = error_of([&] { set.connect({1, 2}); });
  });
  while (awaited->ranks().size() < 2) std::this_thread::yield();
  CHECK(awaited->ranks() == std::vector<std::uint32_t>{1, 2});
  third.begin(0, {.timeout = milliseconds(20'000)});
  third.connect({0});
  while (awaited->ranks().size() > 1) std::this_thread::yield();
  CHECK(awaited->ranks() == std::vector<std::uint32_t>{1});
  set.abort({hvd::ErrorCode::unavailable, "the test is over"});
  connecting.join();
  REQUIRE(error.has_value());
  CHECK(error->text == "the test is over");
}

TEST_CASE("addresses are numeric, of either family", "[links]") {
  CHECK(SocketAddress::parse("10.1.2.3:4711").text() == "10.1.2.3:4711");
  CHECK(SocketAddress::parse("[fd00::1]:4711").text() == "[fd00::1]:4711");
  CHECK(SocketAddress::of("::1", 7).text() == "[::1]:7");
  for (const char* const wrong : {"", "host:1", "10.1.2.3", "10.1.2.3:", "10.1.2.3:0", "1.2.3.4:x",
                                  "10.1.2.3:70000", "[::1:5", ":5"})
    CHECK(error_of([&] { SocketAddress::parse(wrong); })->code == hvd::ErrorCode::unavailable);
}
