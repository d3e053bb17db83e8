#include <string>
#include <vector>

#include "cli/hosts/host_orders.h"
#include "cli/text/user_errors.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

HostEntry host(const std::string& word) { return parse_ordered_hosts(word).front(); }

std::string listing(const HostOrders& orders) {
  std::string text;
  for (const HostEntry& entry : orders.hosts())
    text += (text.empty() ? "" : " ") + entry.name + ":" + std::to_string(entry.slots);
  return text;
}

TEST_CASE("a word by hand counts until the next one by hand", "[discovery]") {
  HostOrders orders(parse_ordered_hosts("a:2,b:1"));
  orders.add(host("c:4"));
  CHECK(listing(orders) == "a:2 b:1 c:4");
  orders.add(host("a:1"));
  CHECK(listing(orders) == "a:1 b:1 c:4");
  CHECK(orders.leave(host("b")));
  CHECK_FALSE(orders.leave(host("b")));
  CHECK_FALSE(orders.leave(host("d")));
  CHECK(listing(orders) == "a:1 c:4");
  // Whatever the source says.
  orders.list(parse_ordered_hosts("b:8,c:2,d:1"));
  CHECK(listing(orders) == "c:4 d:1 a:1");
  CHECK(orders.leave(host("a")));
  CHECK(orders.leave(host("c")));
  orders.add(host("b:3"));
  CHECK(listing(orders) == "b:3 d:1");
}

TEST_CASE("users and ports belong to a host that is named by hand", "[discovery]") {
  HostOrders orders(parse_ordered_hosts("a:2"));
  CHECK_FALSE(orders.leave(host("me@a")));
  orders.add(host("me@a:22:1"));
  CHECK(orders.hosts().size() == 2);
  CHECK_THROWS_AS(parse_ordered_hosts("a:x"), UsageError);
}

}  // namespace
}  // namespace hvdrun
