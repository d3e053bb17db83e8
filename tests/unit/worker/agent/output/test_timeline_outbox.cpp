
#include "common/base/limits.h"
#include "tests/catch.h"
#include "worker/agent/output/timeline_outbox.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kAhead = 100'000 * kMs;

TimelineBatch batch_of(std::uint32_t rank, std::uint32_t count, std::size_t bytes = 10) {
  TimelineBatch batch;
  batch.rank = rank;
  batch.count = count;
  batch.bytes = std::string(bytes, 'e');
  return batch;
}

std::vector<Frame> frames_of(const std::string& bytes) {
  FrameDecoder decoder;
  decoder.feed(bytes);
  std::vector<Frame> frames;
  std::error_code ec;
  while (auto frame = decoder.next(ec)) frames.push_back(*std::move(frame));
  CHECK_FALSE(ec);
  return frames;
}

std::vector<TimelineBatch> batches_of(const std::string& bytes) {
  std::vector<TimelineBatch> batches;
  for (const Frame& frame : frames_of(bytes))
    if (frame.type == MessageType::timeline_batch)
      CHECK_FALSE(decode(frame.payload, batches.emplace_back()));
  return batches;
}

TEST_CASE("on the coordinator's machine events go on at once, as they are", "[timeline]") {
  TimelineOutbox relay("here", true);
  relay.add(batch_of(1, 5));
  CHECK_FALSE(relay.query(0));
  const auto batches = batches_of(relay.take(0));
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].rank == 1);
  CHECK(batches[0].count == 5);
  CHECK(batches[0].clock_add == 0);
  CHECK(relay.take(0).empty());
}

TEST_CASE("elsewhere they wait until the clock is known", "[timeline]") {
  TimelineOutbox relay("here", false);
  std::uint64_t now = 50 * kMs;
  CHECK_FALSE(relay.query(now));  // nobody records: nobody is asked
  relay.add(batch_of(0, 1));
  for (std::size_t i = 0; i < TimelineOutbox::kFirstQueries; ++i) {
    CHECK(relay.take(now).empty());
    const auto query = relay.query(now);
    REQUIRE(query);
    CHECK(query->sent_ns == now);
    CHECK_FALSE(relay.query(now));            // one at a time
    relay.reply({now - 1, 5, "there"}, now);  // not the answer
    now += 2 * kMs;
    relay.reply({query->sent_ns, query->sent_ns + kMs + kAhead, "there"}, now);
  }
  relay.add(batch_of(1, 1));
  relay.add(TimelineControl{1, 1, false, {}});
  const std::string frames = relay.take(now);
  CHECK(frames_of(frames).back().type == MessageType::timeline_control);
  const auto batches = batches_of(frames);
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].clock_add == kAhead);
  // From now on once a second, when there are events.
  CHECK_FALSE(relay.query(now));
  CHECK(relay.query(now + 1000 * kMs));
}

TEST_CASE("who answers with the same clock is on this machine", "[timeline]") {
  TimelineOutbox relay("here", false);
  relay.add(batch_of(0, 1));
  const auto query = relay.query(kMs);
  REQUIRE(query);
  relay.reply({query->sent_ns, 7, "here"}, 9 * kMs);
  const auto batches = batches_of(relay.take(9 * kMs));
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].clock_add == 0);
  CHECK_FALSE(relay.query(5000 * kMs));
}

TEST_CASE("a host that does not know its clock by name is no host that does", "[timeline]") {
  TimelineOutbox relay("", false);
  relay.add(batch_of(0, 1));
  const auto query = relay.query(kMs);
  REQUIRE(query);
  relay.reply({query->sent_ns, kMs + kAhead, ""}, kMs);
  CHECK(relay.take(kMs).empty());
  relay.finish();
  CHECK(batches_of(relay.take(kMs)).at(0).clock_add == kAhead);
}

TEST_CASE("what cannot be kept is counted for its rank", "[timeline]") {
  TimelineOutbox relay("here", true);
  const std::size_t size = limits::kMaxTimelineBatch;
  const std::size_t fit = limits::kMaxTimelineHeld / size - 1;
  for (std::size_t i = 0; i < fit; ++i) relay.add(batch_of(0, 100, size));
  relay.add(batch_of(1, 1));
  for (int i = 0; i < 3; ++i) {
    auto batch = batch_of(0, 100, size);
    batch.dropped = 7;
    relay.add(std::move(batch));
  }
  auto batches = batches_of(relay.take(0));
  REQUIRE(batches.size() >= fit + 1);
  std::uint64_t told = 0;
  std::uint64_t kept = 0;
  for (const TimelineBatch& batch : batches) {
    kept += batch.rank == 0 ? batch.count : 0;
    told += batch.dropped;
    CHECK((batch.rank == 0 || batch.dropped == 0));
  }
  relay.add(batch_of(1, 1));
  relay.add(batch_of(0, 1));
  batches = batches_of(relay.take(0));
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].dropped == 0);
  CHECK(kept + told + batches[1].dropped == (fit + 3) * 100 + 3 * 7);
  CHECK(batches[1].dropped > 0);
}

}  // namespace
}  // namespace hvdrun
