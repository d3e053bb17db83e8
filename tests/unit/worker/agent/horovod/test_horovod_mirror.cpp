#include <map>

#include "tests/catch.h"
#include "worker/agent/horovod/horovod_mirror.h"

namespace hvdrun {
namespace {

struct HorovodMirrorFixture {
  static constexpr std::uint32_t kEpoch = 5;

  // The answer that a member gets at once: "200 value", "404", or "later".
  std::string ask(const std::string& method, const std::string& target, const std::string& body,
                  HorovodMirror::Waiter waiter) {
    HttpRequest request;
    request.method = method;
    request.target = target;
    request.body = body;
    request.has_length = true;
    return in_words(mirror.answer(std::move(request), waiter));
  }
  std::string get(const std::string& target, HorovodMirror::Waiter waiter) {
    return ask("GET", target, {}, waiter);
  }
  // By a member that does not wait long.
  std::string get(const std::string& target) {
    const std::string found = get(target, ++nobody);
    return found != "later" ? found : in_words(mirror.overdue(nobody));
  }
  static std::string in_words(const HorovodAnswer& answer) {
    if (answer.status == 0) return "later";
    return std::to_string(answer.status) + (answer.value ? " " + *answer.value : "");
  }
  // The messages that go up, in words: "follow 1 s", "unfollow 1", "ask 1 put s k v", "taken 80".
  std::vector<std::string> up() {
    std::vector<std::string> words;
    for (const std::string& bytes : mirror.take_frames()) {
      FrameDecoder decoder;
      decoder.feed(bytes);
      std::error_code ec;
      const auto frame = decoder.next(ec);
      REQUIRE(frame);
      CHECK(frame->epoch == kEpoch);
      words.push_back(in_words(*frame));
    }
    return words;
  }
  static std::string in_words(const Frame& frame) {
    HorovodFollow follow;
    HorovodUnfollow unfollow;
    HorovodAsk ask;
    HorovodTaken taken;
    if (frame.type == MessageType::horovod_follow && !decode(frame.payload, follow))
      return "follow " + std::to_string(follow.follow) + " " + follow.scope;
    if (frame.type == MessageType::horovod_unfollow && !decode(frame.payload, unfollow))
      return "unfollow " + std::to_string(unfollow.follow);
    if (frame.type == MessageType::horovod_taken && !decode(frame.payload, taken))
      return "taken " + std::to_string(taken.bytes);
    if (frame.type != MessageType::horovod_ask || decode(frame.payload, ask)) return "nonsense";
    const char* const verb = ask.verb == HorovodVerb::put   ? " put "
                             : ask.verb == HorovodVerb::get ? " get "
                                                            : " finish ";
    return "ask " + std::to_string(ask.request) + verb + ask.scope + " " + ask.key +
           (ask.value.empty() ? "" : " " + ask.value);
  }
  template <class M>
  Errc down(const M& message) {
    return mirror.coordinator_frame(Frame{M::kType, kEpoch, encode(message)});
  }
  // Answers that have come for who waited.
  std::map<HorovodMirror::Waiter, std::string> late() {
    std::map<HorovodMirror::Waiter, std::string> found;
    for (const HorovodMirror::Late& late : mirror.take_late())
      found[late.waiter] = in_words(late.answer);
    return found;
  }

  using Words = std::vector<std::string>;
  using Late = std::map<HorovodMirror::Waiter, std::string>;
  HorovodMirror mirror{kEpoch};
  HorovodMirror::Waiter nobody = 1000;
};

TEST_CASE_METHOD(HorovodMirrorFixture, "polls for what is not there go up once, for all members",
                 "[horovod_mirror]") {
  CHECK(get("/global/0", 1) == "later");
  CHECK(get("/global/1", 2) == "later");
  CHECK(get("/global/0", 3) == "later");
  CHECK(up() == Words{"follow 1 global"});
  CHECK(down(HorovodCopy{1, "1", "one"}) == Errc::ok);
  CHECK(get("/global/1") == "200 one");  // there before all of it is
  CHECK(late().empty());
  CHECK(down(HorovodCaughtUp{1}) == Errc::ok);
  // A get of a peer's address waits here; other keys are asked for once.
  CHECK(late() == Late{{2, "200 one"}});
  for (int poll = 0; poll < 100; ++poll) CHECK(get("/global/0") == "404");
  CHECK(get("/global/rank_0", 4) == "404");
  mirror.forget(3);
  CHECK(in_words(mirror.overdue(2)) == "later");  // it does not wait
  CHECK(get("/global/0", 5) == "later");
  CHECK(down(HorovodCopy{1, "2", "two"}) == Errc::ok);
  CHECK(late().empty());
  CHECK(down(HorovodCopy{1, "0", ""}) == Errc::ok);
  CHECK(late() == Late{{1, "200 "}, {5, "200 "}});
  CHECK(in_words(mirror.overdue(5)) == "later");
  for (int member = 0; member < 8; ++member) CHECK(get("/global/0") == "200 ");
  CHECK(get("/global/1") == "200 one");
  CHECK(up().empty());
}

TEST_CASE_METHOD(HorovodMirrorFixture, "a put is answered when the coordinator has it",
                 "[horovod_mirror]") {
  get("/s/k", 1);
  down(HorovodCaughtUp{1});
  late();
  CHECK(ask("PUT", "/s/k", "v", 2) == "later");
  CHECK(up() == Words{"follow 1 s", "ask 1 put s k v"});
  CHECK(get("/s/7", 8) == "later");
  CHECK(get("/s/k") == "404");
  CHECK(down(HorovodReply{1, 200, 1, {}}) == Errc::ok);
  CHECK(late() == Late{{2, "200"}});
  CHECK(get("/s/k") == "200 v");  // it does not come back
  CHECK(up().empty());
  // And goes to who waits for it on this host.
  ask("PUT", "/s/7", "seven", 2);
  down(HorovodReply{2, 200, 1, {}});
  CHECK(late() == Late{{2, "200"}, {8, "200 seven"}});
  up();
  // Refused, it is not there.
  ask("PUT", "/s/k", "w", 2);
  down(HorovodReply{3, 507, 0, {}});
  CHECK(late() == Late{{2, "507"}});
  CHECK(get("/s/k") == "200 v");
  // Followed by another number meanwhile, or by none.
  ask("PUT", "/s/l", "l", 2);
  down(HorovodReply{4, 200, 7, {}});
  ask("PUT", "/t/k", "t", 3);
  down(HorovodReply{5, 200, 0, {}});
  CHECK(late() == Late{{2, "200"}, {3, "200"}});
  CHECK(get("/s/l") == "404");
  CHECK(get("/t/k", 9) == "later");
}

TEST_CASE_METHOD(HorovodMirrorFixture, "what is dropped is not answered with any more",
                 "[horovod_mirror]") {
  get("/global/0", 1);
  for (const char* key : {"0", "1", "rank_0"}) down(HorovodCopy{1, key, "x"});
  down(HorovodCaughtUp{1});
  CHECK(ask("DELETE", "/global/0", {}, 2) == "later");
  down(HorovodDrop{1, "1"});
  CHECK(get("/global/1") == "404");
  CHECK(get("/global/0") == "200 x");
  down(HorovodDrop{1, {}});
  down(HorovodReply{1, 200, 0, {}});
  for (const char* target : {"/global/0", "/global/1", "/global/rank_0"})
    CHECK(get(target) == "404");
  down(HorovodCopy{1, "0", "next round"});
  CHECK(get("/global/0") == "200 next round");
  CHECK(up() == Words{"follow 1 global", "ask 1 finish global 0"});
}

TEST_CASE_METHOD(HorovodMirrorFixture, "a place in the next assignment waits at the coordinator",
                 "[horovod_mirror]") {
  CHECK(get("/rank_and_size/b:0", 4) == "later");
  CHECK(up() == Words{"ask 1 get rank_and_size b:0"});
  CHECK(down(HorovodReply{1, 200, 0, "2,3,0,1,1,2"}) == Errc::ok);
  CHECK(late() == Late{{4, "200 2,3,0,1,1,2"}});
}

TEST_CASE_METHOD(HorovodMirrorFixture, "what is no request is refused here", "[horovod_mirror]") {
  CHECK(ask("POST", "/s/k", {}, 1) == "501");
  CHECK(get("/s") == "400");
  CHECK(get("/s/k/l") == "400");
  CHECK(get("/s/" + std::string(limits::kMaxStoreKey + 1, 'k')) == "414");
  CHECK(mirror.answer({"PUT", "/s/k", {}, false, false}, 1).status == 400);
  CHECK(up().empty());
}

TEST_CASE_METHOD(HorovodMirrorFixture, "values on their way up wait for those before them",
                 "[horovod_mirror]") {
  mirror = HorovodMirror(kEpoch, {.held = 1000, .window = 400});
  const std::string value(300, 'v');
  for (std::uint64_t i = 1; i <= 3; ++i)
    CHECK(ask("PUT", "/s/" + std::to_string(i), value, i) == "later");
  CHECK(ask("PUT", "/s/4", value, 4) == "503");  // 1200 bytes would wait
  CHECK(up() == Words{"ask 1 put s 1 " + value, "ask 2 put s 2 " + value});
  down(HorovodReply{1, 200, 0, {}});
  CHECK(up() == Words{"ask 3 put s 3 " + value});
  for (std::uint64_t i = 2; i <= 3; ++i) down(HorovodReply{i, 200, 0, {}});
  CHECK(late() == Late{{1, "200"}, {2, "200"}, {3, "200"}});
  // A body that means nothing goes nowhere.
  for (std::uint64_t i = 4; i < 20; ++i) {
    CHECK(ask("DELETE", "/s/1", value, i) == "later");
    CHECK(up() == Words{"ask " + std::to_string(i) + " finish s 1"});
    down(HorovodReply{i, 200, 0, {}});
  }
  CHECK(ask("PUT", "/s/4", value, 4) == "later");
}

TEST_CASE_METHOD(HorovodMirrorFixture, "copies are told to be taken, some at a time",
                 "[horovod_mirror]") {
  mirror = HorovodMirror(kEpoch, {.window = 4000});
  get("/s/k", 1);
  CHECK(up() == Words{"follow 1 s"});
  const std::string value(600, 'v');
  const std::uint64_t cost = horovod_cost("0", value.size());
  down(HorovodCopy{1, "0", value});
  CHECK(up().empty());
  down(HorovodCopy{8, "1", value});  // nothing that is followed: it was on its way all the same
  CHECK(up() == Words{"taken " + std::to_string(2 * cost)});
}

TEST_CASE_METHOD(HorovodMirrorFixture, "of too many scopes the one not used for longest goes",
                 "[horovod_mirror]") {
  mirror = HorovodMirror(kEpoch, {.follows = 2});
  get("/a/k", 1);
  get("/b/k", 2);
  CHECK(get("/c/k", 3) == "503");  // both are about to be had
  for (std::uint64_t follow : {1, 2}) down(HorovodCaughtUp{follow});
  down(HorovodCopy{2, "k", "old"});
  CHECK(get("/a/k") == "404");
  CHECK(get("/c/k", 3) == "later");
  CHECK(up() == Words{"follow 1 a", "follow 2 b", "unfollow 2", "follow 3 c"});
  CHECK(mirror.follows() == 2);
  // A value that was under way of it is for nobody, when it is followed again too.
  down(HorovodCaughtUp{3});
  CHECK(get("/b/k", 4) == "later");
  CHECK(up() == Words{"unfollow 1", "follow 4 b"});
  down(HorovodCopy{2, "k", "old"});
  down(HorovodDrop{2, "k"});
  down(HorovodCaughtUp{2});
  CHECK(late() == Late{{1, "404"}, {2, "404"}, {3, "404"}});
  down(HorovodCaughtUp{4});
  CHECK(late() == Late{{4, "404"}});
}

TEST_CASE_METHOD(HorovodMirrorFixture, "requests that wait are counted", "[horovod_mirror]") {
  mirror = HorovodMirror(kEpoch, {.asked = 2});
  CHECK(get("/s/1", 1) == "later");
  CHECK(get("/s/2", 2) == "later");
  CHECK(get("/s/3", 3) == "503");
  for (std::uint64_t i = 1; i <= 2; ++i) CHECK(ask("DELETE", "/s/1", {}, i) == "later");
  CHECK(ask("DELETE", "/s/1", {}, 3) == "503");
  down(HorovodCaughtUp{1});
  down(HorovodReply{1, 200, 0, {}});
  CHECK(get("/t/3", 3) == "later");
  CHECK(ask("DELETE", "/s/1", {}, 3) == "later");
}

TEST_CASE_METHOD(HorovodMirrorFixture, "a coordinator that makes no sense is not trusted",
                 "[horovod_mirror]") {
  CHECK(down(HorovodReply{1, 200, 0, {}}) == Errc::malformed);  // nobody has asked
  ask("PUT", "/s/k", "v", 1);
  CHECK(down(HorovodReply{1, 7, 0, {}}) == Errc::malformed);
  CHECK(down(HorovodTaken{1}) == Errc::unexpected_message);
  CHECK(mirror.coordinator_frame({MessageType::horovod_copy, kEpoch, "x"}) == Errc::malformed);
  CHECK_FALSE(HorovodMirror::takes(MessageType::horovod_ask));
}

}  // namespace
}  // namespace hvdrun
