#include "coordinator/membership.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("every assignment has a new epoch and starts from the beginning", "[membership]") {
  const std::vector<HostSlots> hosts = {{"a", 1}, {"b", 0}, {"c", 2}};
  Membership members;
  CHECK(members.epoch() == 0);
  members.assign({hosts, 3});
  CHECK(members.epoch() == 1);
  CHECK(members.hosts_used() == std::vector<std::uint32_t>{0, 2});
  CHECK(members.owns(2, 1));
  CHECK_FALSE(members.owns(0, 1));
  CHECK_FALSE(members.owns(0, 3));
  members.set_state(0, RankState::started);
  members.set_state(0, RankState::exited);
  members.assign({hosts, 2});
  CHECK(members.epoch() == 2);
  CHECK(members.started() == 0);
  CHECK(members.exited() == 0);
  CHECK(members.size() == 2);
}

TEST_CASE("a rank is counted once on its way", "[membership]") {
  Membership members;
  members.assign({{{"a", 2}}, 2});
  members.set_state(0, RankState::started);
  members.set_state(0, RankState::joined);
  members.set_state(0, RankState::left);
  members.set_state(0, RankState::joined);  // after hvd::shutdown() and another init()
  CHECK(members.started() == 1);
  CHECK(members.joined() == 1);
  CHECK(members.count(RankState::joined) == 1);
  CHECK(members.count(RankState::left) == 0);
  CHECK(members.count(RankState::assigned) == 1);
  members.set_state(0, RankState::exited);
  members.set_state(0, RankState::exited);
  members.set_state(0, RankState::joined);  // late news of a process that is gone
  CHECK(members.exited() == 1);
  CHECK(members.count(RankState::exited) == 1);
  CHECK(members.ranks()[0].state == RankState::exited);
}

// Slots 0 and 1 on a, 2 on b. In the second epoch slot 2 is rank 0, and slot 0 is rank 1.
struct SecondEpoch {
  SecondEpoch() {
    members.assign({{{"a", 2}, {"b", 1}}, 3});
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      members.set_state(slot, RankState::started);
      members.set_pid(slot, 1000 + slot);
    }
    members.set_state(0, RankState::joined);
    members.set_state(1, RankState::exited);
    members.assign(deal_ranks(members.table(), {2, 0}, {}));
  }
  Membership members;
};

TEST_CASE("the slots of the first epoch are its ranks", "[membership]") {
  Membership members;
  members.assign({{{"a", 2}, {"b", 1}}, 3});
  CHECK(members.order() == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(members.rank_of(2) == 2U);
  CHECK_FALSE(members.rank_of(3));
  CHECK(members.dealt().places[2].host == 1);
}

TEST_CASE_METHOD(SecondEpoch, "another epoch of the same slots gives them other ranks",
                 "[membership]") {
  CHECK(members.epoch() == 2);
  CHECK(members.size() == 3);  // slots
  CHECK(members.order() == std::vector<std::uint32_t>{2, 0});
  CHECK(members.rank_of(2) == 0U);
  CHECK(members.rank_of(0) == 1U);
  CHECK_FALSE(members.rank_of(1));
  CHECK_FALSE(members.rank_of(3));
  // Each has come as far as before, and is where it was.
  CHECK(members.ranks()[0].state == RankState::joined);
  CHECK(members.ranks()[1].state == RankState::exited);
  CHECK(members.ranks()[2].pid == 1002);
  CHECK(members.owns(1, 2));
  CHECK(members.exited() == 1);
  CHECK(members.count(RankState::started) == 1);
}

TEST_CASE_METHOD(SecondEpoch, "by rank there are the members of the epoch alone", "[membership]") {
  const Membership view = members.in_ranks();
  CHECK(view.epoch() == 2);
  REQUIRE(view.size() == 2);
  CHECK(view.ranks()[0].pid == 1002);
  CHECK(view.ranks()[0].place.host == 1);
  CHECK(view.ranks()[0].place.rank == 0);
  CHECK(view.ranks()[1].pid == 1000);
  CHECK(view.ranks()[1].place.size == 2);
  CHECK(view.count(RankState::joined) == 1);
  CHECK(view.count(RankState::started) == 1);
  CHECK(view.count(RankState::exited) == 0);
}

TEST_CASE_METHOD(SecondEpoch, "a slot that is started again begins anew", "[membership]") {
  members.restart(2);  // its process has not ended
  CHECK(members.ranks()[2].state == RankState::started);
  CHECK(members.ranks()[2].pid == 1002);
  members.restart(1);
  CHECK(members.ranks()[1].state == RankState::assigned);
  CHECK(members.ranks()[1].pid == 0);
  CHECK(members.count(RankState::assigned) == 1);
  CHECK(members.count(RankState::exited) == 0);
  CHECK(members.exited() == 0);
  members.set_state(1, RankState::exited);
  CHECK(members.exited() == 1);
}

}  // namespace
}  // namespace hvdrun
