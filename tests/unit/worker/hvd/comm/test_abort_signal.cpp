// Communicators that are being made, and a reason to give up.
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "worker/hvd/comm/abort_signal.h"
#include "worker/hvd/comm/link/link_set.h"
#include "worker/hvd/comm/shm/mapping.h"
#include "worker/hvd/comm/shm/shm_communicator.h"

using namespace hvdrun;
using namespace hvdrun::test;
using std::chrono::milliseconds;

namespace {

const hvd::Error kLost(hvd::ErrorCode::peer_lost, "rank 1: it is gone");
// Far more than it may take, far less than the waits that are to end.
constexpr std::chrono::seconds kSoon{10};

// Calls `wait`, which does not end of itself, and raises the reason a moment later.
std::string error_when_raised(AbortSignal& abort, const std::function<void()>& wait) {
  std::thread raise([&abort] {
    std::this_thread::sleep_for(milliseconds(20));
    abort.raise(kLost);
    abort.raise(hvd::Error(hvd::ErrorCode::internal, "a later one"));
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto error = error_of(wait);
  raise.join();
  CHECK(std::chrono::steady_clock::now() - begin < kSoon);
  return error ? error->text : "";
}

}  // namespace

TEST_CASE("the first reason counts, and none once nobody is to look", "[abort]") {
  AbortSignal abort;
  CHECK_FALSE(abort.reason());
  CHECK_FALSE(abort.await_reason(milliseconds(1)));
  abort.raise(kLost);
  abort.raise(hvd::Error(hvd::ErrorCode::internal, "a later one"));
  REQUIRE(abort.await_reason(milliseconds(0)));
  CHECK(abort.reason()->what() == std::string(kLost.what()));
  CHECK(abort.fd() >= 0);
  abort.close();
  CHECK_FALSE(abort.reason());
  CHECK(abort.fd() == -1);
}

TEST_CASE("who waits for a rank of this host that never comes gives up", "[abort]") {
  const auto abort = std::make_shared<AbortSignal>();
  const auto mapping = std::make_shared<const Mapping>(Mapping::anonymous(shm_segment_bytes(2)));
  ShmOptions options;
  options.size = 2;
  options.abort = abort;
  const auto communicator = make_shm_communicator(mapping, options);
  const std::string error = error_when_raised(
      *abort, [&] { communicator->barrier({.timeout = std::chrono::seconds(60)}); });
  CHECK(error.find("rank 1: it is gone") != std::string::npos);
}

TEST_CASE("who waits for a connection to another host that is never made gives up", "[abort]") {
  const auto abort = std::make_shared<AbortSignal>();
  const std::uint32_t own = GENERATE(0U, 1U);  // one dials, one is dialed
  const LinkSet silent({{1, 0, 1 - own}, "key", "127.0.0.1"});
  LinkSet::Options options{{1, 0, own}, "key", "127.0.0.1"};
  options.abort = abort;
  LinkSet links(std::move(options));
  std::vector<std::string> endpoints{links.endpoint(), silent.endpoint()};
  if (own == 1) std::swap(endpoints[0], endpoints[1]);
  links.set_peers(HostLayout({1, 1}), endpoints);
  links.begin(1, {.timeout = std::chrono::seconds(60)});
  const std::string error = error_when_raised(*abort, [&] { links.connect({1 - own}); });
  CHECK(error.find("rank 1: it is gone") != std::string::npos);
}
