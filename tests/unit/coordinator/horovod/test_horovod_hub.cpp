#include <algorithm>
#include <set>

#include "coordinator/horovod/horovod_hub.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// Two hosts, a with two ranks and b with one, and a third that may follow.
struct HorovodHubFixture {
  static constexpr std::uint32_t kEpoch = 5;
  static constexpr std::size_t kSmallWindow = 1000;

  explicit HorovodHubFixture(std::size_t window = limits::kHorovodWindow)
      : hub(kEpoch, 3, {}, window) {
    hub.assign(members_of({{{"a", 2}, {"b", 1}}, 3}), kEpoch);
  }

  template <class M>
  Errc say(std::uint32_t host, const M& message, std::uint32_t of_epoch = kEpoch) {
    return hub.agent_frame(host, Frame{M::kType, of_epoch, encode(message)});
  }
  // The messages to a host, in words, since the last call: "copy 1 k=v", "drop 1 k", "drop 1 all",
  // "caught up 1", "reply 7 200 follow 1 v".
  std::vector<std::string> told(std::uint32_t host) {
    for (HorovodHub::Action& action : hub.take_actions()) {
      FrameDecoder decoder;
      decoder.feed(action.frame);
      if (action.rest) decoder.feed(*action.rest);
      std::error_code ec;
      const auto frame = decoder.next(ec);
      REQUIRE(frame);
      CHECK(frame->epoch == epoch);
      CHECK_FALSE(decoder.mid_frame());
      said[action.host].push_back(in_words(*frame));
    }
    return std::exchange(said[host], {});
  }
  static std::string in_words(const Frame& frame) {
    HorovodCopy copy;
    HorovodDrop drop;
    HorovodCaughtUp caught_up;
    HorovodReply reply;
    if (frame.type == MessageType::horovod_copy && !decode(frame.payload, copy))
      return "copy " + std::to_string(copy.follow) + " " + copy.key + "=" + copy.value;
    if (frame.type == MessageType::horovod_drop && !decode(frame.payload, drop))
      return "drop " + std::to_string(drop.follow) + " " + (drop.key.empty() ? "all" : drop.key);
    if (frame.type == MessageType::horovod_caught_up && !decode(frame.payload, caught_up))
      return "caught up " + std::to_string(caught_up.follow);
    if (frame.type == MessageType::horovod_reply && !decode(frame.payload, reply))
      return "reply " + std::to_string(reply.request) + " " + std::to_string(reply.status) +
             " follow " + std::to_string(reply.follow) + " " + reply.value;
    return "nonsense";
  }
  Errc put(std::uint32_t host, const std::string& scope, const std::string& key,
           const std::string& value) {
    return say(host, HorovodAsk{++request, HorovodVerb::put, scope, key, value});
  }
  Errc finish(std::uint32_t host, const std::string& scope, const std::string& key) {
    return say(host, HorovodAsk{++request, HorovodVerb::finish, scope, key, {}});
  }
  // To the last request.
  std::string answered(std::uint64_t follow, int status = 200) const {
    return "reply " + std::to_string(request) + " " + std::to_string(status) + " follow " +
           std::to_string(follow) + " ";
  }

  using Words = std::vector<std::string>;
  HorovodHub hub;
  std::uint32_t epoch = kEpoch;  // of the frames that are expected
  std::uint64_t request = 0;
  std::map<std::uint32_t, Words> said;
};

struct HorovodHubWithSmallWindow : HorovodHubFixture {
  HorovodHubWithSmallWindow() : HorovodHubFixture(kSmallWindow) {}
};

TEST_CASE_METHOD(HorovodHubFixture, "who follows a scope gets what it has, then what comes",
                 "[horovod_hub]") {
  put(0, "global", "0", "zero");
  CHECK(told(0) == Words{answered(0)});
  CHECK(say(1, HorovodFollow{1, "global"}) == Errc::ok);
  CHECK(told(1) == Words{"copy 1 0=zero", "caught up 1"});
  put(0, "global", "1", "");
  put(0, "other", "1", "not asked for");
  CHECK(told(1) == Words{"copy 1 1="});
  CHECK(say(2, HorovodFollow{9, "empty"}) == Errc::ok);
  CHECK(told(2) == Words{"caught up 9"});
  // A large value, which is not copied for each host.
  const std::string large(100'000, 'x');
  put(0, "global", "2", large);
  CHECK(told(1) == Words{"copy 1 2=" + large});
}

TEST_CASE_METHOD(HorovodHubWithSmallWindow, "a scope that never rests does not keep another",
                 "[horovod_hub]") {
  const auto value = [](int round) { return std::to_string(round) + std::string(2'000, 'v'); };
  put(0, "busy", "k", value(0));
  put(0, "other", "k", "v");
  say(1, HorovodFollow{1, "busy"});
  say(1, HorovodFollow{2, "other"});
  Words words;
  for (int round = 1; round < 5; ++round) {
    put(0, "busy", "k", value(round));
    for (const std::string& word : told(1)) words.push_back(word.substr(0, 12));
    say(1, HorovodTaken{horovod_cost("k", 2'001)});
  }
  CHECK(std::find(words.begin(), words.end(), "caught up 2") != words.end());
}

TEST_CASE_METHOD(HorovodHubFixture, "what a host has put itself does not come back to it",
                 "[horovod_hub]") {
  say(0, HorovodFollow{1, "global"});
  say(1, HorovodFollow{4, "global"});
  told(0);
  told(1);
  put(0, "global", "0", "zero");
  CHECK(told(0) == Words{answered(1)});
  CHECK(told(1) == Words{"copy 4 0=zero"});
  // A second time, under another number: it has nothing under that one.
  say(0, HorovodUnfollow{1});
  say(0, HorovodFollow{2, "global"});
  CHECK(told(0) == Words{"copy 2 0=zero", "caught up 2"});
  put(1, "global", "1", "one");
  CHECK(told(0) == Words{"copy 2 1=one"});
  CHECK(told(1) == Words{answered(4)});
}

TEST_CASE_METHOD(HorovodHubFixture, "what is replaced is dropped before anybody is answered",
                 "[horovod_hub]") {
  say(0, HorovodFollow{1, "s"});
  say(1, HorovodFollow{1, "s"});
  put(0, "s", "k", "old");
  told(0);
  told(1);
  SECTION("by another host") {
    put(2, "s", "k", "new");
    CHECK(told(0) == Words{"drop 1 k", "copy 1 k=new"});
    CHECK(told(1) == Words{"drop 1 k", "copy 1 k=new"});
    CHECK(told(2) == Words{answered(0)});
  }
  SECTION("by the host that has it") {
    put(0, "s", "k", "new");
    CHECK(told(0) == Words{answered(1)});
    CHECK(told(1) == Words{"drop 1 k", "copy 1 k=new"});
  }
  SECTION("by the same bytes: nothing is told") {
    put(2, "s", "k", "old");
    CHECK(told(0).empty());
    CHECK(told(1).empty());
    put(1, "s", "k", "old");
    CHECK(told(1) == Words{answered(1)});
    // It is dropped all the same where it was put.
    finish(2, "s", "k");
    CHECK(told(0) == Words{"drop 1 k"});
    CHECK(told(1) == Words{"drop 1 k"});
  }
}

TEST_CASE_METHOD(HorovodHubFixture, "the same bytes again count as put by that host, too",
                 "[horovod_hub]") {
  put(0, "s", "k", "v");
  say(1, HorovodFollow{1, "other"});
  say(1, HorovodFollow{2, "s"});
  told(1);
  say(2, HorovodFollow{3, "s"});
  told(2);
  put(2, "s", "k", "v");
  CHECK(told(2) == Words{answered(3)});
  finish(0, "s", "k");
  CHECK(told(1) == Words{"drop 2 k"});
  CHECK(told(2) == Words{"drop 3 k"});
}

TEST_CASE_METHOD(HorovodHubFixture, "a round's end empties the copies before the last is answered",
                 "[horovod_hub]") {
  for (std::uint32_t host = 0; host < 2; ++host) say(host, HorovodFollow{1, "global"});
  for (const char* key : {"0", "1"}) put(0, "global", key, "x");
  put(1, "global", "2", "x");
  finish(0, "global", "0");
  finish(0, "global", "0");
  finish(1, "global", "2");
  told(0);
  told(1);
  finish(0, "global", "1");
  CHECK(told(0) == Words{"drop 1 all", answered(0)});
  CHECK(told(1) == Words{"drop 1 all"});
  // The next round of the same members.
  put(1, "global", "2", "x");
  CHECK(told(0) == Words{"copy 1 2=x"});
  CHECK(told(1) == Words{answered(1)});
}

TEST_CASE_METHOD(HorovodHubWithSmallWindow, "copies wait until those before them are taken",
                 "[horovod_hub]") {
  const std::string value(600, 'v');
  const std::uint64_t cost = horovod_cost("0", value.size());
  for (const char* key : {"0", "1", "2", "3"}) put(0, "s", key, value);
  say(1, HorovodFollow{1, "s"});
  CHECK(told(1) == Words{"copy 1 0=" + value, "copy 1 1=" + value});
  // Control goes past them.
  CHECK(put(1, "t", "k", "") == Errc::ok);
  CHECK(told(1) == Words{answered(0)});
  SECTION("in order") {
    CHECK(say(1, HorovodTaken{cost}) == Errc::ok);
    CHECK(told(1) == Words{"copy 1 2=" + value});
    CHECK(say(1, HorovodTaken{cost}) == Errc::ok);
    CHECK(told(1) == Words{"copy 1 3=" + value, "caught up 1"});
    CHECK(say(1, HorovodTaken{cost * 2}) == Errc::ok);
    CHECK(say(1, HorovodTaken{1}) == Errc::malformed);  // more than there was
  }
  SECTION("as they are then, and not what is gone") {
    put(0, "s", "1", "new");
    CHECK(told(1) == Words{"drop 1 1"});
    for (int i = 0; i < 3; ++i) put(0, "s", "2", std::to_string(i));
    finish(0, "s", "3");
    CHECK(told(1).empty());
    say(1, HorovodTaken{cost});
    CHECK(told(1) == Words{"copy 1 1=new", "copy 1 2=2", "caught up 1"});
  }
  SECTION("and no other host waits") {
    say(2, HorovodFollow{7, "t"});
    CHECK(told(2) == Words{"copy 7 k=", "caught up 7"});
  }
}

TEST_CASE_METHOD(HorovodHubFixture, "who has come to meet is known whoever carries it",
                 "[horovod_hub]") {
  const auto version = hub.store().gathering_version();
  put(1, "global", "rank_2", "h");
  CHECK(hub.store().gathering_version() == version + 1);
  CHECK(hub.store().gathering().present == std::vector<std::uint32_t>{2});
  CHECK(hub.store().gathering().missing == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE_METHOD(HorovodHubFixture, "a member's place is answered, once there is one",
                 "[horovod_hub]") {
  const auto ask = [&](std::uint32_t host, std::uint64_t number, const std::string& key) {
    return say(host, HorovodAsk{number, HorovodVerb::get, "rank_and_size", key, {}});
  };
  CHECK(ask(1, 3, "b:0") == Errc::ok);
  CHECK(told(1) == Words{"reply 3 200 follow 0 2,3,0,1,1,2"});
  hub = HorovodHub(kEpoch, 3);
  CHECK(ask(0, 8, "a:1") == Errc::ok);
  CHECK(ask(1, 9, "b:0") == Errc::ok);
  CHECK(told(0).empty());
  hub.agent_lost(1);
  hub.assign(members_of({{{"a", 2}}, 2}), kEpoch);
  CHECK(told(0) == Words{"reply 8 200 follow 0 1,2,1,2,0,1"});
  CHECK(told(1).empty());
}

TEST_CASE_METHOD(HorovodHubFixture, "a new epoch drops what agents have copies of",
                 "[horovod_hub]") {
  say(0, HorovodFollow{1, "global"});
  put(0, "global", "rank_0", "h");
  put(1, "global", "rank_2", "h");
  told(0);
  epoch = kEpoch + 1;
  hub.assign(members_of({{{"b", 1}, {"a", 1}}, 2}), epoch);
  CHECK(told(0) == Words{"drop 1 all"});
  CHECK(hub.store().keys() == 0);
  // New values come to them as before, also from an agent that has not heard of it.
  CHECK(put(1, "global", "rank_0", "h") == Errc::ok);
  CHECK(told(0) == Words{"copy 1 rank_0=h"});
  CHECK(say(0, HorovodFollow{2, "x"}, epoch + 1) == Errc::wrong_epoch);
}

TEST_CASE_METHOD(HorovodHubFixture, "an elastic member waits for its next place", "[horovod_hub]") {
  using What = HorovodHub::Said::What;
  hub.wait_for_places();
  say(1, HorovodAsk{1, HorovodVerb::put, "worker_addresses", "b:0", "value"});
  say(1, HorovodAsk{2, HorovodVerb::get, "rank_and_size", "b:0", {}});
  say(0, HorovodAsk{3, HorovodVerb::get, "rank_and_size", "a:1", {}});
  const auto heard = hub.take_said();
  REQUIRE(heard.size() == 3);
  CHECK(heard[0].what == What::enters);
  CHECK(heard[0].value == "value");
  CHECK(heard[1].what == What::at_door);
  CHECK(heard[1].host == 1);
  CHECK(heard[1].member == "b:0");
  CHECK(told(1) == Words{"reply 1 200 follow 0 "});
  hub.assign(members_of({{{"b", 1}}, 1}), kEpoch);
  CHECK(told(1) == Words{"reply 2 200 follow 0 0,1,0,1,0,1"});
  CHECK(told(0) == Words{"reply 3 200 follow 0 -1,-1,-1,-1,-1,-1"});
}

TEST_CASE_METHOD(HorovodHubFixture, "who comes before its epoch is answered in it",
                 "[horovod_hub]") {
  std::set<std::uint32_t> early{3};
  hub.set_comes_early([&](std::uint32_t host, std::uint32_t rank) {
    CHECK(host == 1);
    return early.contains(rank);
  });
  put(1, "global", "rank_3", "first");
  put(1, "global", "rank_3", "second");  // a process that was started again
  put(1, "global", "7", "addresses");    // its first key alone tells
  CHECK(told(1) == Words{answered(0)});
  CHECK_FALSE(hub.store().gathering().present.size() > 0);
  const auto request_of_second = request - 1;
  hub.assign(members_of({{{"a", 2}, {"b", 2}}, 4}), kEpoch);
  CHECK(told(1).empty());  // it is not of this one, either
  early.clear();
  hub.assign(members_of({{{"a", 2}, {"b", 2}}, 4}), kEpoch);
  CHECK(told(1) == Words{"reply " + std::to_string(request_of_second) + " 200 follow 0 "});
  CHECK(hub.store().gathering().present == std::vector<std::uint32_t>{3});
  CHECK(*hub.store().find("global", "rank_3")->value == "second");
  // Nothing is kept of a host that is lost.
  early = {3};
  put(1, "global", "rank_3", "third");
  hub.agent_lost(1);
  early.clear();
  hub.assign(members_of({{{"a", 2}, {"b", 2}}, 4}), kEpoch);
  CHECK(told(1).empty());
  CHECK(hub.store().keys() == 0);
}

TEST_CASE_METHOD(HorovodHubFixture, "a host that is lost follows nothing", "[horovod_hub]") {
  say(0, HorovodFollow{1, "s"});
  say(1, HorovodFollow{1, "s"});
  told(0);
  hub.agent_lost(0);
  told(1);
  put(1, "s", "k", "v");
  CHECK(told(0).empty());
  CHECK(told(1) == Words{answered(1)});
}

TEST_CASE_METHOD(HorovodHubFixture, "the store's limits are answered", "[horovod_hub]") {
  hub = HorovodHub(kEpoch, 3, {.value = 3});
  say(1, HorovodFollow{1, "s"});
  put(1, "s", "k", "abc");
  CHECK(told(1) == Words{"caught up 1", answered(1)});
  put(1, "s", "k", "abcd");
  CHECK(told(1) == Words{answered(0, 413)});
  CHECK(hub.store().keys() == 1);
}

TEST_CASE_METHOD(HorovodHubFixture, "an agent that makes no sense is not trusted",
                 "[horovod_hub]") {
  CHECK(say(0, HorovodFollow{1, "s"}, kEpoch + 1) == Errc::wrong_epoch);
  CHECK(say(0, HorovodFollow{1, "s"}) == Errc::ok);
  CHECK(say(0, HorovodFollow{1, "t"}) == Errc::malformed);  // a number for two
  CHECK(say(0, HorovodFollow{2, "s"}) == Errc::malformed);  // two for a scope
  CHECK(say(0, HorovodFollow{0, "t"}) == Errc::malformed);
  CHECK(say(0, HorovodFollow{3, "rank_and_size"}) == Errc::malformed);
  CHECK(say(0, HorovodTaken{1}) == Errc::malformed);
  CHECK(put(0, "", "k", "") == Errc::malformed);
  CHECK(put(0, "s", "a/b", "") == Errc::malformed);
  CHECK(put(0, "s", std::string(limits::kMaxStoreKey + 1, 'k'), "") == Errc::malformed);
  CHECK(say(0, HorovodAsk{1, static_cast<HorovodVerb>(9), "s", "k", {}}) == Errc::malformed);
  CHECK(hub.agent_frame(0, Frame{MessageType::horovod_ask, kEpoch, "x"}) == Errc::malformed);
  CHECK(say(0, HorovodCaughtUp{1}) == Errc::unexpected_message);
  CHECK(say(0, HorovodUnfollow{77}) == Errc::ok);
  for (std::uint64_t i = 2; i <= limits::kMaxHorovodFollows; ++i)
    REQUIRE(say(0, HorovodFollow{i, "s" + std::to_string(i)}) == Errc::ok);
  CHECK(say(0, HorovodFollow{999'999, "more"}) == Errc::limit_exceeded);
}

}  // namespace
}  // namespace hvdrun
