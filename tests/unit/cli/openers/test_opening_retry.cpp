// Hosts that are tried again: which, when, and what is said of it.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/openers/opening_retry.h"
#include "cli/openers/ssh/ssh_words.h"
#include "tests/catch.h"

using namespace hvdrun;
using namespace std::chrono_literals;

namespace {

constexpr OpeningRetry::Fault kHungUp{true, false};
constexpr OpeningRetry::Fault kNoBanner{true, true};
constexpr OpeningRetry::Fault kAbsentHost{false, true};
constexpr OpeningRetry::Fault kWrongKey{};

bool is_not_there_yet(const std::vector<std::string>& lines) {
  SshWords words;
  for (const std::string& line : lines) words.hear(line);
  return words.is_not_there_yet();
}

}  // namespace

TEST_CASE("a host that is not there yet is tried again only when it is waited for", "[opening]") {
  OpeningRetry hasty(false, 0);
  CHECK_FALSE(hasty.failed(kAbsentHost));
  CHECK_FALSE(hasty.failed(kWrongKey));
  OpeningRetry patient(true, 0);
  CHECK_FALSE(patient.failed(kWrongKey));
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 5; ++i) {
    const auto again = patient.failed(kAbsentHost);
    REQUIRE(again);
    CHECK_FALSE(again->keeps_place);
    CHECK(again->is_news == (i == 0));
    pauses.push_back(again->pause);
  }
  CHECK(pauses == std::vector<std::chrono::milliseconds>{250ms, 500ms, 1000ms, 1000ms, 1000ms});
  // It is there now, and lets nobody in.
  CHECK_FALSE(patient.failed(kWrongKey));
}

TEST_CASE("a server that turns a client away has hung up, one that knows it has not", "[opening]") {
  // As clients of OpenSSH 9 and 10 say it.
  for (const char* words :
       {"kex_exchange_identification: Connection closed by remote host; Connection closed by "
        "10.0.0.2 port 22",
        "kex_exchange_identification: read: Connection reset by peer; Connection reset by 10.0.0.2 "
        "port 22",
        "Connection closed by 10.0.0.2 port 22", "Connection closed by UNKNOWN port 65535"}) {
    CAPTURE(words);
    CHECK(server_hung_up(words));
  }
  for (const char* words :
       {"root@gpu1: Permission denied (publickey).", "Connection to gpu1 closed by remote host.",
        "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures; "
        "Connection closed by 10.0.0.2 port 22",
        "Host key verification failed."}) {
    CAPTURE(words);
    CHECK_FALSE(server_hung_up(words));
  }
}

TEST_CASE("many hosts are not tried again at the same moment, nor much later", "[opening]") {
  OpeningRetry first(true, 16);
  OpeningRetry last(true, 31);
  for (int i = 0; i < 5; ++i) {
    const auto soon = first.failed(kAbsentHost)->pause;
    const auto late = last.failed(kAbsentHost)->pause;
    CHECK(soon < late);
    CHECK(late <= 3s);
  }
}

TEST_CASE("an sshd that hangs up is tried six times more, later each time", "[opening]") {
  for (const bool waits : {false, true}) {
    OpeningRetry retry(waits, 0);
    std::chrono::milliseconds before{};
    for (int i = 0; i < 6; ++i) {
      const auto again = retry.failed(kHungUp);
      REQUIRE(again);
      CHECK(again->keeps_place);
      CHECK_FALSE(again->is_news);
      CHECK(again->pause > before);
      before = again->pause;
    }
    CHECK_FALSE(retry.failed(kHungUp));
  }
  // One that never says a word may just be starting.
  OpeningRetry starting(true, 0);
  for (int i = 0; i < 6; ++i) REQUIRE(starting.failed(kNoBanner)->keeps_place);
  const auto again = starting.failed(kNoBanner);
  REQUIRE(again);
  CHECK_FALSE(again->keeps_place);
  CHECK(again->is_news);
  CHECK(starting.failed(kNoBanner)->keeps_place);
}

TEST_CASE("the client's words tell who is not there from who refuses", "[opening]") {
  for (const char* const words :
       {"ssh: connect to host node2 port 22: Connection refused",
        "ssh: connect to host node2 port 22: No route to host",
        "ssh: connect to host node2 port 22: Network is unreachable",
        "ssh: connect to host node2 port 22: Connection timed out",
        "ssh: Could not resolve hostname node2: Name or service not known",
        "ssh: Could not resolve hostname node2: Temporary failure in name resolution",
        "ssh: Could not resolve hostname node2: No address associated with hostname",
        "kex_exchange_identification: Connection closed by remote host",
        "kex_exchange_identification: read: Connection reset by peer",
        "Connection timed out during banner exchange"}) {
    CAPTURE(words);
    CHECK(is_not_there_yet({words}));
  }
  // Through a jump host, whose own words come first.
  CHECK(is_not_there_yet({"channel 0: open failed: connect failed: Connection refused",
                          "stdio forwarding failed", "Connection closed by UNKNOWN port 65535"}));
  CHECK(
      is_not_there_yet({"System is booting up. Unprivileged users are not permitted to log in "
                        "yet. Please come back later.",
                        "Connection closed by 10.0.0.2 port 22"}));
  for (const char* const words :
       {"root@node2: Permission denied (publickey).", "Host key verification failed.",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "Unable to negotiate with 10.0.0.2 port 22: no matching host key type found.",
        "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures"}) {
    CAPTURE(words);
    CHECK_FALSE(is_not_there_yet({words}));
    CHECK_FALSE(
        is_not_there_yet({"kex_exchange_identification: Connection closed by remote host", words}));
  }
  CHECK_FALSE(is_not_there_yet({"channel 0: open failed: administratively prohibited: open failed",
                                "stdio forwarding failed"}));
  CHECK_FALSE(is_not_there_yet({"this account is closed"}));
  CHECK_FALSE(is_not_there_yet({}));
}
