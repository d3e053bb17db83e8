#include <ifaddrs.h>

#include "cli/hosts/this_machine.h"
#include "common/net/host_addresses.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("names that need no look-up", "[this machine]") {
  const OwnNames own("node7");
  for (const char* name : {"localhost", "LOCALHOST", "node7", "Node7", "127.0.0.1", "127.9.8.7",
                           "::1", "::ffff:127.0.0.1"}) {
    CAPTURE(name);
    CHECK(own.find(name) == KnownName::here);
  }
  for (const HostAddress& own_one : host_addresses())
    CHECK(own.find(own_one.address) == KnownName::here);
  // Addresses of the blocks for documentation.
  for (const char* name : {"192.0.2.1", "2001:db8::1", "fe80::dead:beef:1%eth0", "0.0.0.0"})
    CHECK(own.find(name) == KnownName::elsewhere);
  for (const char* name : {"node70", "node7.lab", "localhost.lab", "127.0.0.1.lab", "1270"})
    CHECK(own.find(name) == KnownName::to_look_up);
}

TEST_CASE("names are looked up", "[this machine]") {
  using namespace std::chrono_literals;
  // "localhost" stands in every hosts file; an address needs no resolver.
  CHECK(look_up_own_names({"192.0.2.1", "localhost", "127.0.0.3"}, 30s) ==
        std::vector<bool>{false, true, true});
  std::vector<std::string> many(1000, "127.0.0.1");
  many[500] = "192.0.2.1";
  std::vector<bool> expected(1000, true);
  expected[500] = false;
  CHECK(look_up_own_names(many, 30s) == expected);
  // No time: no answer, and no child is left.
  CHECK(look_up_own_names({"192.0.2.1"}, 0s) == std::vector<bool>{false});
}

}  // namespace
}  // namespace hvdrun
