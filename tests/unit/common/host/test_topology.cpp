#include "common/host/topology.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

struct Row {
  const char* name;
  std::vector<HostSlots> hosts;
  std::uint32_t np;
  std::vector<RankPlace> places;  // rank, host, local rank, local size, cross rank, cross size
};

// Horovod's table of host lists and ranks, row by row. Where Horovod's own launcher starts more
// ranks than -np asks for, or leaves a duplicate host broken, the row holds what is right.
std::vector<Row> horovod_table() {
  return {
      {"a:2,b:4 -np 6",
       {{"a", 2}, {"b", 4}},
       6,
       {{0, 0, 0, 2, 0, 2},
        {1, 0, 1, 2, 0, 2},
        {2, 1, 0, 4, 1, 2},
        {3, 1, 1, 4, 1, 2},
        {4, 1, 2, 4, 0, 1},
        {5, 1, 3, 4, 0, 1}}},
      {"a:2,b:4 -np 3",
       {{"a", 2}, {"b", 4}},
       3,
       {{0, 0, 0, 2, 0, 2}, {1, 0, 1, 2, 0, 1}, {2, 1, 0, 1, 1, 2}}},
      {"a:2,b:4 -np 5",
       {{"a", 2}, {"b", 4}},
       5,
       {{0, 0, 0, 2, 0, 2},
        {1, 0, 1, 2, 0, 2},
        {2, 1, 0, 3, 1, 2},
        {3, 1, 1, 3, 1, 2},
        {4, 1, 2, 3, 0, 1}}},
      {"a:1,b:2,c:3 -np 6",
       {{"a", 1}, {"b", 2}, {"c", 3}},
       6,
       {{0, 0, 0, 1, 0, 3},
        {1, 1, 0, 2, 1, 3},
        {2, 1, 1, 2, 0, 2},
        {3, 2, 0, 3, 2, 3},
        {4, 2, 1, 3, 1, 2},
        {5, 2, 2, 3, 0, 1}}},
      {"worker-0:1,worker-1:2 -np 3",
       {{"worker-0", 1}, {"worker-1", 2}},
       3,
       {{0, 0, 0, 1, 0, 2}, {1, 1, 0, 2, 1, 2}, {2, 1, 1, 2, 0, 1}}},
      {"worker-0:2,worker-1:2 -np 2",
       {{"worker-0", 2}, {"worker-1", 2}},
       2,
       {{0, 0, 0, 2, 0, 1}, {1, 0, 1, 2, 0, 1}}},
      {"a:2,a:2 merged, -np 4",
       {{"a", 4}},
       4,
       {{0, 0, 0, 4, 0, 1}, {1, 0, 1, 4, 0, 1}, {2, 0, 2, 4, 0, 1}, {3, 0, 3, 4, 0, 1}}},
      {"a:0,b:2 -np 2", {{"a", 0}, {"b", 2}}, 2, {{0, 1, 0, 2, 0, 1}, {1, 1, 1, 2, 0, 1}}},
  };
}

TEST_CASE("ranks, local and cross ranks follow Horovod's table", "[topology]") {
  for (const Row& row : horovod_table()) {
    CAPTURE(row.name);
    const RankTable table(row.hosts, row.np);
    const std::vector<RankPlace>& places = table.places();
    REQUIRE(places.size() == row.places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      CAPTURE(i);
      CHECK(places[i].rank == row.places[i].rank);
      CHECK(places[i].host == row.places[i].host);
      CHECK(places[i].local_rank == row.places[i].local_rank);
      CHECK(places[i].local_size == row.places[i].local_size);
      CHECK(places[i].cross_rank == row.places[i].cross_rank);
      CHECK(places[i].cross_size == row.places[i].cross_size);
      CHECK(places[i].size == row.places.size());
    }
  }
}

TEST_CASE("too few slots give fewer ranks, no hosts give none", "[topology]") {
  CHECK(RankTable({{"a", 2}}, 5).size() == 2);
  CHECK(RankTable({}, 5).places().empty());
  CHECK(RankTable({{"a", 2}}, 0).places().empty());
  CHECK(RankTable().size() == 0);
}

TEST_CASE("the rank table is looked up by rank and by host", "[topology]") {
  const RankTable table({{"a", 2}, {"none", 0}, {"b", 3}, {"late", 4}}, 4);
  CHECK(table.hosts().size() == 4);
  CHECK(table.hosts_used() == std::vector<std::uint32_t>{0, 2});
  CHECK(table.node_rank(0) == 0);
  CHECK(table.node_rank(2) == 1);
  CHECK(table.host_name(1) == "a");
  CHECK(table.host_name(3) == "b");
  std::string rows;
  for (std::uint32_t host = 0; host < table.hosts().size(); ++host) {
    rows += table.hosts()[host].name + ":";
    for (const RankPlace& place : table.on_host(host)) rows += std::to_string(place.rank);
  }
  CHECK(rows == "a:01none:b:23late:");
  CHECK(table[3].local_rank == 1);
}

TEST_CASE("a table may grow by hosts and slots", "[topology]") {
  RankTable table({{"a", 2}, {"b", 4}, {"c", 1}}, 3);
  REQUIRE(table.hosts_used() == std::vector<std::uint32_t>{0, 1});
  CHECK(table.add_host({"d", 2}) == 3);
  CHECK(table.add_slot(3).rank == 3);
  const RankPlace added = table.add_slot(1);
  CHECK(added.rank == 4);
  CHECK(added.host == 1);
  CHECK(added.local_rank == 1);
  CHECK(added.local_size == 2);
  CHECK(added.cross_rank == 1);  // a has such a one
  CHECK(added.size == 5);
  CHECK(table.add_slot(2).rank == 5);
  CHECK(table.hosts_used() == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(table.node_rank(3) == 3);
  CHECK(table.count_on(1) == 2);
  const auto here = table.on_host(1);
  REQUIRE(here.size() == 2);
  CHECK(here[0].rank == 2);
  CHECK(here[1].rank == 4);
  CHECK(table.host_name(3) == "d");
  CHECK(table.size() == 6);
  // Places that were dealt before stay.
  CHECK(table[2].local_size == 1);
}

}  // namespace
}  // namespace hvdrun
