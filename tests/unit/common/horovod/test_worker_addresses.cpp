#include "common/horovod/worker_addresses.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// As Python writes them, with protocols 5, 5 (a list twice), 4 and 2.
constexpr const char* kTwoInterfaces =
    "gAWVbQAAAAAAAAB9lCiMAmxvlF2UjAkxMjcuMC4wLjGUTUCchpRhjARldGgwlF2UKIwIMTAuMC4wLjGUTUCchpSMCDEwLj"
    "AuMC4ylEvIhpRldUMga2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2uUhpQu";
constexpr const char* kListTwice =
    "gAWVTAAAAAAAAAB9lCiMAmxvlF2UjAkxMjcuMC4wLjGUTUCchpRhjARldGgwlGgCdUMga2tra2tra2tra2tra2tra2tra2"
    "t"
    "ra2tra2tra2tra2uUhpQu";
constexpr const char* kNoInterface = "gASVCwAAAAAAAAB9lEMDa2V5lIaULg==";
constexpr const char* kOldProtocol =
    "gAJ9cQBYAgAAAGxvcQFdcQJYCQAAADEyNy4wLjAuMXEDTUCchnEEYXNjX2NvZGVjcwplbmNvZGUKcQVYAwAAAGtleXEGWA"
    "YAAABsYXRpbjFxB4ZxCFJxCYZxCi4=";

TEST_CASE("a rank's addresses are read as Python has written them", "[worker_addresses]") {
  const auto two = read_worker_addresses(kTwoInterfaces);
  REQUIRE(two);
  CHECK(two->key == std::string(32, 'k'));
  REQUIRE(two->endpoints.size() == 3);
  CHECK(two->endpoints[0].address == "127.0.0.1");
  CHECK(two->endpoints[0].port == 40000);
  CHECK(two->endpoints[2].address == "10.0.0.2");
  CHECK(two->endpoints[2].port == 200);
  const auto twice = read_worker_addresses(std::string(kListTwice) + "\n");
  REQUIRE(twice);
  CHECK(twice->endpoints.size() == 2);
  const auto none = read_worker_addresses(kNoInterface);
  REQUIRE(none);
  CHECK(none->endpoints.empty());
  CHECK(none->key == "key");
}

TEST_CASE("a pickle that calls something is refused", "[worker_addresses]") {
  CHECK_FALSE(read_worker_addresses(kOldProtocol));
}

TEST_CASE("whatever a rank sends is read or refused", "[worker_addresses]") {
  const std::string good = kTwoInterfaces;
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(read_worker_addresses(good.substr(0, size)));
  }
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t read = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int digit = 0; digit < 64; ++digit) {
      std::string text = good;
      text[at] = kDigits[digit];
      if (const auto found = read_worker_addresses(text)) {
        ++read;
        for (const HorovodEndpoint& endpoint : found->endpoints) CHECK(endpoint.port > 0);
      }
    }
  CHECK(read > 64);  // the key may be anything
  CHECK_FALSE(read_worker_addresses(""));
  CHECK_FALSE(read_worker_addresses("===="));
  CHECK_FALSE(read_worker_addresses("a b="));
  CHECK_FALSE(read_worker_addresses(std::string(WorkerAddresses::kMaxValue + 4, 'A')));
}

}  // namespace
}  // namespace hvdrun
