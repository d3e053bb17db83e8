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

}  // namespace
}  // namespace hvdrun
