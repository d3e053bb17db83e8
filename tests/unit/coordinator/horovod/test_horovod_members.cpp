#include "common/host/topology.h"
#include "coordinator/horovod/horovod_members.h"
#include "coordinator/horovod/horovod_store.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::string text_of(const HorovodSlot& one) {
  const RankPlace& p = one.place;
  std::string text = one.host;
  for (const std::uint32_t number :
       {p.rank, p.size, p.local_rank, p.local_size, p.cross_rank, p.cross_size})
    text += " " + std::to_string(number);
  return text;
}

TEST_CASE("places follow from the names of the ranks' hosts as in the rank table",
          "[horovod_members]") {
  const RankTable table({{"a", 3}, {"b", 1}, {"c", 2}}, 6);
  const auto expected = members_of(table);
  const auto places = horovod_places({"a", "a", "a", "b", "c", "c"});
  REQUIRE(places.size() == expected.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    CHECK(text_of(places[rank]) == text_of(expected[rank]));
  // Names of one machine need not stand together.
  const auto mixed = horovod_places({"a", "b", "a"});
  CHECK(text_of(mixed[1]) == "b 1 3 0 1 1 2");
  CHECK(text_of(mixed[2]) == "a 2 3 1 2 0 1");
  CHECK(horovod_places({}).empty());
}

TEST_CASE("members are known by their places of the epoch", "[horovod_members]") {
  HorovodMembers members({"a", "a", "b"});
  CHECK(members.member("a:1") == 1U);
  CHECK(members.member("b:0") == 2U);
  CHECK_FALSE(members.member("b:1"));
  CHECK_FALSE(members.member("a"));
  members.add_slot("c");
  Assignment dealt;
  dealt.slots = {2, 1, 3};
  const auto places = members.places(dealt);
  REQUIRE(places.size() == 3);
  CHECK(text_of(places[1]) == "a 1 3 0 1 1 3");
  members.promise(3, places[2]);
  CHECK(members.promised(2) == std::vector<std::uint32_t>{3});
  members.begin_epoch(dealt);
  CHECK(members.promised(2).empty());
  CHECK(members.member("a:0") == 1U);
  CHECK(members.member("c:0") == 3U);
  CHECK_FALSE(members.member("a:1"));
}

TEST_CASE("what a process has said goes with it", "[horovod_members]") {
  HorovodMembers members({"a", "b"});
  members.set_addresses(1, {{{"127.0.0.1", 7}}, "key"});
  REQUIRE(members.addresses(1) != nullptr);
  CHECK(members.addresses(1)->key == "key");
  CHECK(members.addresses(0) == nullptr);
  members.ended(1);
  CHECK(members.addresses(1) == nullptr);
  const std::uint32_t first = members.next_notice();
  CHECK(members.next_notice() > first);
}

}  // namespace
}  // namespace hvdrun
