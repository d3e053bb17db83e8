#include <utility>

#include "cli/hosts/offered_addresses.h"
#include "cli/plan/launch_plan.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Names = std::vector<std::string>;

const std::vector<HostAddress> kAll = {
    {"eth0", "10.0.0.1"}, {"ib0", "10.1.0.1"}, {"eth0", "2001:db8::1"}};

NetworkOptions with(Names interfaces, Names advertise = {}) {
  return {std::move(interfaces), std::move(advertise), {}};
}

TEST_CASE("all addresses are offered, or those that are asked for", "[addresses]") {
  CHECK(offered_addresses({}, kAll) == Names{"10.0.0.1", "10.1.0.1", "2001:db8::1"});
  CHECK(offered_addresses(with({"eth0"}), kAll) == Names{"10.0.0.1", "2001:db8::1"});
  CHECK(offered_addresses(with({"eth0"}, {"192.0.2.1"}), kAll) == Names{"192.0.2.1"});
  CHECK(offered_addresses(with({}, {"192.0.2.1"}), {}) == Names{"192.0.2.1"});
  CHECK_THROWS_AS(offered_addresses({}, {}), HostError);
}

TEST_CASE("an interface that is not there is named, with those that are", "[addresses]") {
  CHECK_THROWS_WITH(
      offered_addresses(with({"eth0", "eth9"}), kAll),
      "--network-interfaces 'eth9': no interface of this machine with an address that "
      "other hosts reach has that name; there are eth0, ib0");
}

TEST_CASE("a job that names the loopback interface alone stays here", "[addresses]") {
  CHECK(stays_here(with({"lo"}), "lo"));
  CHECK_FALSE(stays_here(with({"lo", "eth0"}), "lo"));
  CHECK_FALSE(stays_here(with({"lo"}, {"192.0.2.1"}), "lo"));
  CHECK_FALSE(stays_here({}, "lo"));
  CHECK_FALSE(stays_here(with({""}), "lo"));
}

}  // namespace
}  // namespace hvdrun
