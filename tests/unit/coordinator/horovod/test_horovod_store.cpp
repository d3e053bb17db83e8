#include "coordinator/horovod/horovod_store.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// Two hosts, a with two ranks and b with one.
struct HorovodFixture {
  void assign() { late = store.assign(members_of({{{"a", 2}, {"b", 1}}, 3})); }
  int ask(const std::string& method, const std::string& target, const std::string& body = {},
          HorovodStore::Waiter waiter = 0) {
    HttpRequest request;
    request.method = method;
    request.target = target;
    request.body = body;
    request.has_length = true;
    return ask(std::move(request), waiter);
  }
  int ask(HttpRequest http, HorovodStore::Waiter waiter) {
    HorovodRequest request;
    const int fault = store.read(std::move(http), request);
    last = fault != 0 ? HorovodAnswer{fault, nullptr} : store.answer(std::move(request), waiter);
    return last.status;
  }
  int put(const std::string& target, const std::string& value) { return ask("PUT", target, value); }
  int finish(const std::string& target) { return ask("DELETE", target); }
  // "-" when there is none.
  std::string get(const std::string& target) {
    return ask("GET", target) == 200 ? *last.value : "-";
  }

  HorovodStore store;
  HorovodStore::Answer last;
  std::vector<HorovodStore::Late> late;
};

TEST_CASE_METHOD(HorovodFixture, "values are kept as they are, and overwritten",
                 "[horovod_store]") {
  assign();
  const std::string binary("\0\r\n\xFF", 4);
  CHECK(put("/global/0", binary) == 200);
  CHECK(last.value == nullptr);
  CHECK(get("/global/0") == binary);
  CHECK(put("/global/0", "b") == 200);
  CHECK(get("/global/0") == "b");
  CHECK(store.keys() == 1);
  CHECK(store.bytes() == std::string("global0b").size());
}

TEST_CASE_METHOD(HorovodFixture, "an empty value is there, a missing key is not",
                 "[horovod_store]") {
  assign();
  CHECK(ask("GET", "/local_b/0") == 404);
  CHECK(ask("GET", "/other/0") == 404);
  CHECK(put("/local_b/0", "") == 200);
  CHECK(ask("GET", "/local_b/0") == 200);
  REQUIRE(last.value != nullptr);
  CHECK(last.value->empty());
}

TEST_CASE_METHOD(HorovodFixture, "scope and key are raw text", "[horovod_store]") {
  CHECK(put("/s/a:b%2F?c=d", "1") == 200);
  CHECK(get("/s/a:b%2F?c=d") == "1");
  CHECK(get("/s/a:b/") == "-");
  for (const char* target : {"", "/", "x", "x/y", "/x", "//x", "/x/", "/x//y", "/x/y/z", "/x/y/"}) {
    CAPTURE(target);
    for (const char* method : {"GET", "PUT", "DELETE"}) CHECK(ask(method, target) == 400);
  }
  for (const char* method : {"POST", "HEAD", "get", "OPTIONS"}) CHECK(ask(method, "/s/k") == 501);
  HttpRequest without_length;
  without_length.method = "PUT";
  without_length.target = "/s/k";
  const int status = ask(std::move(without_length), 0);
  CHECK(status == 400);
}

TEST_CASE_METHOD(HorovodFixture, "a scope of known members empties when all have finished",
                 "[horovod_store]") {
  assign();
  for (const char* key : {"0", "1", "2", "rank_0", "rank_1", "rank_2"})
    put(std::string("/global/") + key, "x");
  put("/local_a/0", "l");
  CHECK(finish("/global/0") == 200);
  CHECK(finish("/global/2") == 200);
  CHECK(finish("/global/2") == 200);  // asked again because the answer was lost
  CHECK(get("/global/0") == "x");
  CHECK(finish("/global/1") == 200);
  for (const char* key : {"0", "1", "2", "rank_0", "rank_1", "rank_2"})
    CHECK(get(std::string("/global/") + key) == "-");
  CHECK(get("/local_a/0") == "l");
  CHECK(store.keys() == 1);
  CHECK(store.bytes() == std::string("local_a0l").size());
}

TEST_CASE_METHOD(HorovodFixture, "who has come to meet is known until all have",
                 "[horovod_store]") {
  using Ranks = std::vector<std::uint32_t>;
  put("/global/rank_0", "h");  // of nobody: there is no assignment yet
  CHECK(store.gathering().missing.empty());
  assign();
  CHECK(store.gathering().missing.empty());  // nobody waits
  for (const char* stranger : {"/global/rank_3", "/global/rank_", "/global/rank_1x", "/global/0",
                               "/global/rank_-1", "/local_a/rank_0", "/other/rank_0"})
    put(stranger, "h");
  CHECK(store.gathering().present.empty());
  const auto version = store.gathering_version();
  put("/global/rank_2", "h");
  CHECK(store.gathering().present == Ranks{2});
  CHECK(store.gathering().missing == Ranks{0, 1});
  put("/global/rank_2", "h");
  CHECK(store.gathering_version() == version + 1);
  put("/global/rank_0", "h");
  CHECK(store.gathering().missing == Ranks{1});
  put("/global/rank_1", "h");
  CHECK(store.gathering().present.empty());
  for (const char* member : {"/global/0", "/global/1", "/global/2"}) finish(member);
  put("/global/rank_1", "h");  // the next round
  CHECK(store.gathering().missing == Ranks{0, 2});
}

TEST_CASE_METHOD(HorovodFixture, "each scope counts its own members", "[horovod_store]") {
  assign();
  // Interleaved: a scope that is through must not take another's count along.
  for (const char* target : {"/global/0", "/local_a/0", "/local_a/1", "/local_b/0", "/cross_0/0",
                             "/cross_0/1", "/cross_1/0"})
    put(target, "x");
  finish("/local_a/0");
  finish("/cross_0/1");
  finish("/cross_1/0");
  CHECK(get("/cross_1/0") == "-");  // one member
  CHECK(get("/local_a/0") == "x");
  CHECK(get("/cross_0/0") == "x");
  finish("/cross_0/0");
  CHECK(get("/cross_0/0") == "-");
  finish("/local_a/1");
  CHECK(get("/local_a/0") == "-");
  finish("/local_b/0");
  CHECK(get("/local_b/0") == "-");
  CHECK(get("/global/0") == "x");
}

TEST_CASE_METHOD(HorovodFixture, "who is no member does not finish a scope", "[horovod_store]") {
  assign();
  put("/local_b/0", "x");
  for (const char* key : {"1", "rank_0", "-1", "0x", "99999999999999999999", " 0"}) {
    CAPTURE(key);
    CHECK(finish(std::string("/local_b/") + key) == 200);
    CHECK(get("/local_b/0") == "x");
  }
}

TEST_CASE_METHOD(HorovodFixture, "the same members can meet again in the same scope",
                 "[horovod_store]") {
  assign();
  for (int round = 0; round < 3; ++round) {
    const std::string value = std::to_string(round);
    for (const char* key : {"0", "1"}) CHECK(get(std::string("/local_a/") + key) == "-");
    for (const char* key : {"0", "1"}) put(std::string("/local_a/") + key, value);
    finish("/local_a/0");
    CHECK(get("/local_a/1") == value);
    finish("/local_a/1");
  }
}

TEST_CASE_METHOD(HorovodFixture, "in any other scope DELETE drops just that key",
                 "[horovod_store]") {
  assign();
  const std::string scope = "/global_process_set_hash_1f/";
  put(scope + "0", "x");
  put(scope + "rank_0", "h");
  CHECK(finish(scope + "1") == 200);
  CHECK(finish("/nothing/1") == 200);
  CHECK(finish(scope + "0") == 200);
  CHECK(get(scope + "0") == "-");
  CHECK(get(scope + "rank_0") == "h");
  CHECK(finish(scope + "rank_0") == 200);
  CHECK(store.keys() == 0);
  CHECK(store.bytes() == 0);
}

TEST_CASE_METHOD(HorovodFixture, "rank_and_size waits for an assignment, then answers at once",
                 "[horovod_store]") {
  CHECK(ask("GET", "/rank_and_size/b:0", {}, 7) == 0);
  CHECK(ask("GET", "/rank_and_size/a:1", {}, 8) == 0);
  CHECK(ask("GET", "/rank_and_size/c:0", {}, 9) == 0);
  CHECK(ask("GET", "/rank_and_size/a:0", {}, 10) == 0);
  CHECK(store.waiting() == 4);
  store.forget(10);
  assign();
  REQUIRE(late.size() == 3);
  CHECK(late[0].waiter == 7);
  CHECK(late[0].answer.status == 200);
  CHECK(*late[0].answer.value == "2,3,0,1,1,2");
  CHECK(late[1].waiter == 8);
  CHECK(*late[1].answer.value == "1,3,1,2,0,1");
  CHECK(*late[2].answer.value == "-1,-1,-1,-1,-1,-1");  // not in the job any more
  CHECK(store.waiting() == 0);
  CHECK(get("/rank_and_size/a:0") == "0,3,0,2,0,2");
  CHECK(get("/rank_and_size/a:2") == "-1,-1,-1,-1,-1,-1");
}

TEST_CASE_METHOD(HorovodFixture, "a new assignment starts with empty scopes", "[horovod_store]") {
  assign();
  put("/global/0", "x");
  put("/worker_addresses/a:0", "x");
  finish("/global/1");
  assign();
  CHECK(get("/global/0") == "-");
  CHECK(get("/worker_addresses/a:0") == "-");
  CHECK(store.keys() == 0);
  CHECK(store.bytes() == 0);
  put("/global/0", "x");
  finish("/global/0");
  finish("/global/2");
  CHECK(get("/global/0") == "x");
}

TEST_CASE_METHOD(HorovodFixture, "the store's limits are answered, and nothing is lost",
                 "[horovod_store]") {
  store = HorovodStore({.key = 4, .value = 8, .bytes = 24, .keys = 2, .waiters = 1});
  CHECK(put("/12345/k", "") == 414);
  CHECK(put("/s/12345", "") == 414);
  CHECK(ask("GET", "/s/12345") == 414);
  CHECK(put("/s/k", "123456789") == 413);
  CHECK(put("/s/a", "12345678") == 200);  // 10 bytes
  CHECK(put("/s/b", "12345678") == 200);  // 20 bytes
  CHECK(put("/s/c", "") == 507);          // a third key
  CHECK(put("/s/b", "87654321") == 200);  // in place of the old one
  CHECK(get("/s/a") == "12345678");
  CHECK(get("/s/b") == "87654321");
  finish("/s/b");
  CHECK(put("/wide/k", "12345678") == 200);  // 23 bytes
  CHECK(put("/s/a", "1234567") == 200);
  finish("/wide/k");
  CHECK(put("/wide/key4", "12345678") == 507);  // 9 + 16 bytes
  CHECK(store.bytes() == 9);
  store = HorovodStore({.waiters = 1});
  CHECK(ask("GET", "/rank_and_size/a:0", {}, 1) == 0);
  CHECK(ask("GET", "/rank_and_size/a:1", {}, 2) == 503);
}

TEST_CASE("a member is answered by what it called itself before", "[horovod_store]") {
  HorovodStore ranks;
  ranks.assign(members_of({{{"a", 3}}, 3}));
  ranks.wait_for_places();
  for (const std::uint64_t local : {1U, 2U})
    CHECK(ranks.answer({HorovodVerb::get, "rank_and_size", "a:" + std::to_string(local), {}}, local)
              .status == 0);
  // The first has ended, and the others have moved up.
  const HorovodStore::RanksByName moved{{"a:1", 0}};
  const auto told = ranks.assign(members_of({{{"a", 1}}, 1}), &moved);
  REQUIRE(told.size() == 2);
  CHECK(*told[0].answer.value == "0,1,0,1,0,1");
  CHECK(*told[1].answer.value == "-1,-1,-1,-1,-1,-1");
}

}  // namespace
}  // namespace hvdrun
