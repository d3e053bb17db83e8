#include <algorithm>
#include <random>

#include "coordinator/elastic/rank_dealer.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Slots = std::vector<std::uint32_t>;

// Slots 0 and 1 on a, 2 and 3 on b, 4 on c.
RankTable three_hosts() { return {{{"a", 2}, {"b", 2}, {"c", 1}}, 5}; }

template <class Field>
Slots each(const Assignment& dealt, Field field) {
  Slots values;
  for (const RankPlace& place : dealt.places) values.push_back(place.*field);
  return values;
}

TEST_CASE("hosts with a survivor come first, then those with newcomers alone", "[dealer]") {
  const RankTable table = three_hosts();
  CHECK(deal_ranks(table, {3, 4}, {0, 1, 2}).slots == Slots{3, 2, 4, 0, 1});
  CHECK(deal_ranks(table, {4}, {3, 1}).slots == Slots{4, 1, 3});
  CHECK(deal_ranks(table, {0, 1, 2, 3, 4}, {}).slots == Slots{0, 1, 2, 3, 4});
}

TEST_CASE("survivors keep the order that they had, and not that of the table", "[dealer]") {
  const RankTable table = three_hosts();
  CHECK(deal_ranks(table, {4, 3, 2, 1}, {}).slots == Slots{4, 3, 2, 1});
  CHECK(deal_ranks(table, {4, 3}, {2, 1, 0}).slots == Slots{4, 3, 2, 0, 1});
}

TEST_CASE("newcomers come in the order of their slots, behind the survivors of their host",
          "[dealer]") {
  CHECK(deal_ranks(three_hosts(), {1}, {4, 2, 3, 0}).slots == Slots{1, 0, 2, 3, 4});
}

TEST_CASE("local and cross numbers are those of the new order, hosts those of the table",
          "[dealer]") {
  const Assignment dealt = deal_ranks(three_hosts(), {3, 4}, {0, 1, 2});
  CHECK(each(dealt, &RankPlace::rank) == Slots{0, 1, 2, 3, 4});
  CHECK(each(dealt, &RankPlace::size) == Slots{5, 5, 5, 5, 5});
  CHECK(each(dealt, &RankPlace::host) == Slots{1, 1, 2, 0, 0});
  CHECK(each(dealt, &RankPlace::local_rank) == Slots{0, 1, 0, 0, 1});
  CHECK(each(dealt, &RankPlace::local_size) == Slots{2, 2, 1, 2, 2});
  CHECK(each(dealt, &RankPlace::cross_rank) == Slots{0, 0, 1, 2, 1});
  CHECK(each(dealt, &RankPlace::cross_size) == Slots{3, 2, 3, 3, 2});
}

TEST_CASE("hosts without a rank keep their numbers", "[dealer]") {
  const RankTable table({{"a", 0}, {"b", 1}, {"c", 0}, {"d", 1}}, 2);
  const Assignment dealt = deal_ranks(table, {1}, {0});
  CHECK(dealt.slots == Slots{1, 0});
  CHECK(each(dealt, &RankPlace::host) == Slots{3, 1});
}

// The rules, looked up in the result one by one.
struct Dealt {
  const RankTable& table;
  const Slots& survivors;
  const Slots& newcomers;
  const Assignment& result;

  bool is_new(std::uint32_t slot) const {
    return std::count(newcomers.begin(), newcomers.end(), slot) > 0;
  }
  Slots on_host(std::uint32_t host, bool with_new) const {
    Slots slots;
    for (const std::uint32_t slot : result.slots)
      if (table[slot].host == host && (with_new || !is_new(slot))) slots.push_back(slot);
    return slots;
  }
  Slots hosts() const {
    Slots order;
    for (const std::uint32_t slot : result.slots)
      if (order.empty() || order.back() != table[slot].host) order.push_back(table[slot].host);
    return order;
  }

  bool has_everybody() const {
    Slots all = survivors;
    all.insert(all.end(), newcomers.begin(), newcomers.end());
    return result.slots.size() == all.size() && result.places.size() == all.size() &&
           std::is_permutation(all.begin(), all.end(), result.slots.begin());
  }
  // A host that appears twice is no row.
  bool has_rows() const {
    Slots order = hosts();
    std::sort(order.begin(), order.end());
    return std::adjacent_find(order.begin(), order.end()) == order.end();
  }
  bool has_survivors_first() const {
    for (const std::uint32_t host : hosts()) {
      Slots expected;
      for (const std::uint32_t slot : survivors)
        if (table[slot].host == host) expected.push_back(slot);
      if (on_host(host, false) != expected) return false;
      const Slots all = on_host(host, true);
      if (!std::is_partitioned(all.begin(), all.end(), [this](auto one) { return !is_new(one); }))
        return false;
    }
    const Slots order = hosts();
    return !is_new(result.slots.front()) &&
           std::is_partitioned(order.begin(), order.end(),
                               [this](auto host) { return !on_host(host, false).empty(); });
  }
  bool has_right_numbers() const {
    for (std::uint32_t rank = 0; rank < result.slots.size(); ++rank) {
      const RankPlace& place = result.places[rank];
      const Slots host = on_host(table[result.slots[rank]].host, true);
      std::uint32_t cross_rank = 0;
      std::uint32_t cross_size = 0;
      for (std::uint32_t other = 0; other < result.slots.size(); ++other) {
        if (result.places[other].local_rank != place.local_rank) continue;
        ++cross_size;
        if (other < rank) ++cross_rank;
      }
      if (place.rank != rank || place.size != result.slots.size() ||
          place.host != table[result.slots[rank]].host || place.local_size != host.size() ||
          place.local_rank >= host.size() || host[place.local_rank] != result.slots[rank] ||
          place.cross_rank != cross_rank || place.cross_size != cross_size)
        return false;
    }
    return true;
  }
};

// Ranks go and come for some epochs, each dealt from the one before.
TEST_CASE("whoever goes and comes, the rules hold", "[dealer]") {
  std::mt19937 random(20260835);
  const auto below = [&random](std::uint32_t end) {
    return static_cast<std::uint32_t>(random() % end);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<HostSlots> hosts;
    std::uint32_t slots = 0;
    for (std::uint32_t left = 1 + below(5); left > 0; --left) {
      hosts.push_back({"h" + std::to_string(left), below(4) + (left == 1 ? 1 : 0)});
      slots += hosts.back().slots;
    }
    const RankTable table(std::move(hosts), 1 + below(slots));
    Slots order;
    for (std::uint32_t slot = 0; slot < table.size(); ++slot) order.push_back(slot);
    for (int epoch = 0; epoch < 8; ++epoch) {
      const Slots before = order;
      std::erase_if(order, [&](auto) { return below(3) == 0; });
      if (order.empty()) order.push_back(before[below(static_cast<std::uint32_t>(before.size()))]);
      Slots newcomers;
      for (std::uint32_t slot = 0; slot < table.size(); ++slot)
        if (std::count(order.begin(), order.end(), slot) == 0 && below(2) == 0)
          newcomers.push_back(slot);
      std::shuffle(newcomers.begin(), newcomers.end(), random);
      const Assignment result = deal_ranks(table, order, newcomers);
      const Dealt dealt{table, order, newcomers, result};
      CAPTURE(round, epoch, order, newcomers, result.slots);
      REQUIRE(dealt.has_everybody());
      REQUIRE(dealt.has_rows());
      REQUIRE(dealt.has_survivors_first());
      REQUIRE(dealt.has_right_numbers());
      order = result.slots;
    }
  }
}

}  // namespace
}  // namespace hvdrun
