
#include "coordinator/host_roster.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("a host is expected until its agent comes, and ready once", "[roster]") {
  HostRoster hosts(3);
  hosts.need(0);
  hosts.need(2);
  CHECK(hosts.expects(0));
  CHECK_FALSE(hosts.expects(1));
  CHECK_FALSE(hosts.expects(3));
  hosts.connected(0);
  CHECK_FALSE(hosts.expects(0));
  CHECK_FALSE(hosts.is_ready(0));
  CHECK(hosts.ready(0, AgentReady{1, 8, 4711, "10.0.0.2"}));
  CHECK_FALSE(hosts.ready(0, AgentReady{1, 8, 1, "10.0.0.3"}));
  CHECK(hosts.ready_count() == 1);
  CHECK(hosts.hears(0));
  CHECK(hosts.master_port(0) == 4711);
  CHECK(hosts.address(0) == "10.0.0.2");
}

TEST_CASE("a lost host hears nothing, and is counted as ready if it was", "[roster]") {
  HostRoster hosts(2);
  hosts.need(0);
  hosts.need(1);
  CHECK(hosts.ready(0, AgentReady{}));
  CHECK(hosts.lose(0));
  CHECK_FALSE(hosts.lose(0));
  CHECK(hosts.is_ready(0));
  CHECK_FALSE(hosts.hears(0));
  CHECK(hosts.ready_count() == 1);
  // An agent that comes after all is told of the end.
  CHECK(hosts.lose(1));
  CHECK(hosts.expects(1));
}

TEST_CASE("a host that is opened again is lost until its next agent is ready", "[roster]") {
  HostRoster hosts(2);
  hosts.need(0);
  hosts.need(1);
  for (const std::uint32_t host : {0U, 1U}) {
    hosts.connected(host);
    hosts.ready(host, AgentReady{1, 8, 4711, "10.0.0.2"});
  }
  hosts.lose(1);
  CHECK(hosts.opening(1) == 0);
  hosts.reopen(1);
  CHECK(hosts.opening(1) == 1);
  CHECK(hosts.expects(1));
  CHECK(hosts.is_lost(1));
  CHECK(hosts.ready_count() == 1);
  hosts.connected(1);
  CHECK_FALSE(hosts.lose(1));
  hosts.reopen(1);
  CHECK(hosts.opening(1) == 2);
  hosts.connected(1);
  CHECK_FALSE(hosts.hears(1));
  CHECK(hosts.ready(1, AgentReady{2, 8, 4712, "10.0.0.3"}));
  CHECK(hosts.hears(1));
  CHECK(hosts.ready_count() == 2);
  CHECK(hosts.master_port(1) == 4712);
  CHECK(hosts.opening(0) == 0);
}

TEST_CASE("a host on no network has this machine's address", "[roster]") {
  HostRoster hosts(1);
  CHECK(hosts.ready(0, AgentReady{}));
  CHECK(hosts.address(0) == "127.0.0.1");
  hosts.set_own_address("10.0.0.1");
  CHECK(hosts.address(0) == "10.0.0.1");
}

}  // namespace
}  // namespace hvdrun
