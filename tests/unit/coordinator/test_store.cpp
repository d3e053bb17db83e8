#include "common/base/limits.h"
#include "coordinator/store.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct StoreFixture {
  Store store;
  TimePoint now{};
  std::vector<Store::Answer> answers;
};

TEST_CASE_METHOD(StoreFixture, "a get is answered at once when the key is there", "[store]") {
  CHECK(store.put("k", std::string("\0v", 2), answers) == Errc::ok);
  CHECK(answers.empty());
  store.get("k", {3, 7}, now, 0ms, answers);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].waiter.host == 3);
  CHECK(answers[0].waiter.request == 7);
  CHECK(answers[0].code == Errc::ok);
  CHECK(answers[0].value == std::string("\0v", 2));
}

TEST_CASE_METHOD(StoreFixture, "a get without a wait says not found", "[store]") {
  store.get("k", {0, 1}, now, 0ms, answers);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].code == Errc::not_found);
  CHECK(store.waiting() == 0);
}

TEST_CASE_METHOD(StoreFixture, "all waiting gets of a key are answered by its put, no others",
                 "[store]") {
  store.get("a", {0, 1}, now, 10s, answers);
  store.get("a", {1, 2}, now, 20s, answers);
  store.get("b", {2, 3}, now, 30s, answers);
  CHECK(answers.empty());
  CHECK(store.next_deadline() == now + 10s);
  store.put("a", "x", answers);
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].value == "x");
  CHECK(answers[0].waiter.request + answers[1].waiter.request == 3);
  CHECK(store.waiting() == 1);
  CHECK(store.next_deadline() == now + 30s);
}

TEST_CASE_METHOD(StoreFixture, "a get that waited long enough times out, to the millisecond",
                 "[store]") {
  store.get("a", {0, 1}, now, 500ms, answers);
  store.expire(now + 499ms, answers);
  CHECK(answers.empty());
  store.expire(now + 500ms, answers);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].code == Errc::timeout);
  CHECK_FALSE(store.next_deadline());
  store.put("a", "x", answers);
  CHECK(answers.size() == 1);
}

TEST_CASE_METHOD(StoreFixture, "a lost host's gets are forgotten", "[store]") {
  store.get("a", {0, 1}, now, 1s, answers);
  store.get("a", {1, 2}, now, 1s, answers);
  store.forget_host(0);
  store.put("a", "x", answers);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].waiter.host == 1);
}

TEST_CASE_METHOD(StoreFixture, "limits hold, and replacing a value does not count it twice",
                 "[store]") {
  CHECK(store.put("", "x", answers) == Errc::limit_exceeded);
  CHECK(store.put(std::string(limits::kMaxStoreKey + 1, 'k'), "x", answers) ==
        Errc::limit_exceeded);
  CHECK(store.put("k", std::string(limits::kMaxStoreValue + 1, 'v'), answers) ==
        Errc::limit_exceeded);
  const std::string value(limits::kMaxStoreValue, 'v');
  for (int i = 0; i < 300; ++i) REQUIRE(store.put("k", value, answers) == Errc::ok);
  CHECK(store.bytes() == value.size() + 1);
  Errc code = Errc::ok;
  for (int i = 0; i < 200 && code == Errc::ok; ++i)
    code = store.put("k" + std::to_string(i), value, answers);
  CHECK(code == Errc::limit_exceeded);
  CHECK(store.bytes() <= limits::kMaxStoreBytes);
}

TEST_CASE_METHOD(StoreFixture, "a new epoch empties the store and answers who waits", "[store]") {
  store.put("a", "x", answers);
  store.get("b", {0, 1}, now, 1s, answers);
  store.reset(answers);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].code == Errc::wrong_epoch);
  CHECK(store.bytes() == 0);
  store.get("a", {0, 2}, now, 0ms, answers);
  CHECK(answers[1].code == Errc::not_found);
}

}  // namespace
}  // namespace hvdrun
