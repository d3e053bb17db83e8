#include <fcntl.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/client/fake_agent.h"
#include "worker/hvd/client/session.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

constexpr std::uint32_t kSessionEpoch = 7;

WorkerEnvironment environment() {
  WorkerEnvironment env;
  env.job_id = std::string(32, 'a');
  env.rank = 1;
  env.size = 3;
  return env;
}

std::string greeting() {
  return encode_frame(Welcome{}) + encode_frame(one_host(1, 3), kSessionEpoch);
}

Session joined_session() {
  Session session(environment(), 42);
  session.take_output();
  session.feed(greeting(), {});
  REQUIRE(session.joined());
  REQUIRE(session.take_events().size() == 1);
  return session;
}

// The events must be one fault of this code.
void check_fault(Session& session, Errc code) {
  const auto events = session.take_events();
  REQUIRE(events.size() == 1);
  REQUIRE(std::holds_alternative<LineFault>(events[0]));
  CHECK(std::get<LineFault>(events[0]).code == code);
  session.feed(encode_frame(PeerLost{}, kSessionEpoch), {});
  session.end_of_stream();
  CHECK(session.take_events().empty());
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

template <class M>
M only(std::string bytes) {
  FrameDecoder decoder;
  decoder.feed(bytes);
  std::error_code ec;
  const auto frame = decoder.next(ec);
  REQUIRE(frame.has_value());
  REQUIRE(frame->type == M::kType);
  CHECK(frame->epoch == kSessionEpoch);
  M message;
  REQUIRE_FALSE(decode(frame->payload, message));
  CHECK_FALSE(decoder.mid_frame());
  return message;
}

}  // namespace

TEST_CASE("a session says hello and joins at once", "[client]") {
  Session session(environment(), 42);
  FrameDecoder decoder;
  decoder.feed(session.take_output());
  std::error_code ec;
  const auto hello = decoder.next(ec);
  const auto join = decoder.next(ec);
  REQUIRE(hello.has_value());
  REQUIRE(join.has_value());
  Hello hello_message;
  WorkerJoin join_message;
  REQUIRE_FALSE(decode(hello->payload, hello_message));
  REQUIRE_FALSE(decode(join->payload, join_message));
  CHECK(hello_message.role == Role::worker);
  CHECK(hello_message.job_id == std::string(32, 'a'));
  CHECK(join_message.rank == 1);
  CHECK(join_message.pid == 42);
}

TEST_CASE("a session survives any split of its bytes", "[client]") {
  const std::string bytes = greeting() + encode_frame(PeerLost{2, true, "bye"}, kSessionEpoch) +
                            encode_frame(FenceRelease{0, "blob"}, kSessionEpoch);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Session session(environment(), 42);
    session.feed(bytes.substr(0, cut), {});
    if (session.joined()) session.enter_fence({});
    session.feed(bytes.substr(cut), {});
    // Without a fence entered in time the release is a fault; either way three events or more.
    const auto events = session.take_events();
    REQUIRE(events.size() == 3);
    CHECK(std::holds_alternative<Joined>(events[0]));
    CHECK(std::get<PeerLost>(events[1]).reason == "bye");
  }
  Session session(environment(), 42);
  for (const char byte : greeting()) session.feed({&byte, 1}, {});
  CHECK(session.joined());
}

TEST_CASE("what the engine waits for is cut to the limits", "[client]") {
  Session session = joined_session();
  StallReport report;
  for (std::size_t i = 0; i < limits::kMaxPendingTensors + 4; ++i)
    report.pending.push_back({std::string(limits::kMaxTensorName + 4, 'n'), i});
  report.pending_count = 3;  // fewer than there are
  report.last_submitted = std::string(1000, 'l');
  report.submitted = 9;
  report.meeting = true;
  report.unconnected.resize(limits::kMaxPendingRanks + 1, 4);
  session.stall(0, report);
  const auto told = only<WorkerStall>(session.take_output());
  CHECK(told.request == 0);
  CHECK(within_limits(told.report));
  CHECK(told.report.pending.size() == limits::kMaxPendingTensors);
  CHECK(told.report.pending.back().name == std::string(limits::kMaxTensorName, 'n'));
  CHECK(told.report.pending.back().age_ms == limits::kMaxPendingTensors - 1);
  CHECK(told.report.pending_count == limits::kMaxPendingTensors + 4);
  CHECK(told.report.last_submitted == std::string(limits::kMaxTensorName, 'l'));
  CHECK(told.report.submitted == 9);
  CHECK(told.report.meeting);
  CHECK(told.report.unconnected == std::vector<std::uint32_t>(limits::kMaxPendingRanks, 4));
}

TEST_CASE("a process set of any size can wait", "[client]") {
  Session session = joined_session();
  StallReport report;
  const std::vector<std::uint32_t> half(limits::kMaxPendingRanks / 2);
  report.pending = {{"a", 3, half}, {"b", 2, half}, {"c", 1, half}};
  report.pending_count = 3;
  session.stall(0, report);
  auto told = only<WorkerStall>(session.take_output());
  CHECK(within_limits(told.report));
  CHECK(told.report.pending.size() == 2);
  CHECK(told.report.pending[1].ranks == half);
  CHECK(told.report.pending_count == 3);
  report.pending = {{"large", 3, std::vector<std::uint32_t>(limits::kMaxPendingRanks + 1)}};
  session.stall(0, report);
  told = only<WorkerStall>(session.take_output());
  CHECK(within_limits(told.report));
  REQUIRE(told.report.pending.size() == 1);
  CHECK(told.report.pending[0].ranks.empty());
}

TEST_CASE("the launcher's question is an event, and a fault before the rank has joined",
          "[client]") {
  Session session = joined_session();
  session.feed(encode_frame(StallAsk{77}, kSessionEpoch), {});
  const auto events = session.take_events();
  REQUIRE(events.size() == 1);
  REQUIRE(std::holds_alternative<StallAsk>(events[0]));
  CHECK(std::get<StallAsk>(events[0]).request == 77);
  session.stall(77, {{{"grad", 5}}, 1, "grad", 1});
  CHECK(only<WorkerStall>(session.take_output()).request == 77);
  session.feed(encode_frame(WorkerStall{}, kSessionEpoch), {});
  check_fault(session, Errc::unexpected_message);

  Session early(environment(), 42);
  early.feed(encode_frame(Welcome{}) + encode_frame(StallAsk{1}, kSessionEpoch), {});
  check_fault(early, Errc::unexpected_message);
}

TEST_CASE("requests and answers find each other", "[client]") {
  Session session = joined_session();
  CHECK(session.enter_fence("mine") == 0);
  const auto enter = only<FenceEnter>(session.take_output());
  CHECK(enter.ranks == std::vector<std::uint32_t>{1});
  CHECK(enter.blob == "mine");
  CHECK(session.enter_fence({}) == 1);
  session.take_output();
  session.feed(encode_frame(FenceRelease{0, "blob"}, kSessionEpoch), {});
  session.feed(encode_frame(FenceFailed{1, "rank 2 died"}, kSessionEpoch), {});
  auto events = session.take_events();
  REQUIRE(events.size() == 2);
  CHECK(std::get<FenceOutcome>(events[0]).released);
  CHECK(std::get<FenceOutcome>(events[0]).text == "blob");
  CHECK_FALSE(std::get<FenceOutcome>(events[1]).released);

  const std::uint64_t put = session.put("key", "value");
  CHECK(only<StorePut>(session.take_output()).key == "key");
  const std::uint64_t get = session.get("key", 100);
  CHECK(only<StoreGet>(session.take_output()).timeout_ms == 100);
  session.feed(encode_frame(StoreValue{get, Errc::ok, "value"}, kSessionEpoch), {});
  session.feed(encode_frame(StoreAck{put, Errc::ok}, kSessionEpoch), {});
  events = session.take_events();
  REQUIRE(events.size() == 2);
  CHECK(std::get<Reply>(events[0]).request == get);
  CHECK(std::get<Reply>(events[0]).value == "value");
  CHECK(std::get<Reply>(events[1]).request == put);

  session.leave();
  only<WorkerLeave>(session.take_output());
}

TEST_CASE("descriptors go to segments in order, surplus ones are closed", "[client]") {
  Session session = joined_session();
  const std::uint64_t first = session.get_segment("a", 4096);
  const std::uint64_t second = session.get_segment("b", 4096);
  const std::uint64_t third = session.get_segment("c", 4096);
  std::vector<UniqueFd> fds;
  std::vector<int> numbers;
  for (int i = 0; i < 4; ++i) {
    fds.push_back(make_memfd(4096));
    numbers.push_back(fds.back().get());
  }
  // The second is refused and carries none.
  session.feed(encode_frame(Segment{first, Errc::ok, 4096}, kSessionEpoch) +
                   encode_frame(Segment{second, Errc::mismatch, 0}, kSessionEpoch) +
                   encode_frame(Segment{third, Errc::ok, 4096}, kSessionEpoch),
               std::move(fds));
  {
    const auto events = session.take_events();
    REQUIRE(events.size() == 3);
    CHECK(std::get<Reply>(events[0]).segment.get() == numbers[0]);
    CHECK(std::get<Reply>(events[1]).code == Errc::mismatch);
    CHECK_FALSE(std::get<Reply>(events[1]).segment);
    CHECK(std::get<Reply>(events[2]).segment.get() == numbers[1]);
  }
  CHECK_FALSE(is_open(numbers[0]));
  CHECK_FALSE(is_open(numbers[3]));
  session.end_of_stream();
  CHECK_FALSE(is_open(numbers[2]));
  std::vector<UniqueFd> unasked;
  unasked.push_back(make_memfd(4096));
  const int number = unasked[0].get();
  session.feed(encode_frame(Heartbeat{}, kSessionEpoch), std::move(unasked));
  CHECK_FALSE(is_open(number));
}

TEST_CASE("a session faults on what an agent must not send", "[client]") {
  SECTION("no welcome first") {
    Session session(environment(), 42);
    session.feed(encode_frame(one_host(1, 3), kSessionEpoch), {});
    check_fault(session, Errc::unexpected_message);
  }
  SECTION("another protocol version") {
    Session session(environment(), 42);
    session.feed(encode_frame(Welcome{kProtocolVersion + 1, 0}), {});
    check_fault(session, Errc::version_mismatch);
  }
  SECTION("refusal, before and after joining") {
    const bool after = GENERATE(false, true);
    Session session = after ? joined_session() : Session(environment(), 42);
    session.feed(encode_frame(Refuse{Errc::wrong_job, "another job"}), {});
    check_fault(session, Errc::wrong_job);
  }
  SECTION("an impossible place") {
    auto change = GENERATE(
        as<std::function<void(WorkerTopology&)>>(), [](WorkerTopology& t) { t.rank = 2; },
        [](WorkerTopology& t) { t.size = 1; }, [](WorkerTopology& t) { t.local_rank = 3; },
        [](WorkerTopology& t) { t.local_size = 4; }, [](WorkerTopology& t) { t.cross_rank = 1; },
        [](WorkerTopology& t) { t.cross_size = 0; },
        [](WorkerTopology& t) { t.local_ranks.clear(); },
        [](WorkerTopology& t) {
          t.local_ranks = {0, 2, 1};
        });
    Session session(environment(), 42);
    WorkerTopology topology = one_host(1, 3);
    change(topology);
    session.feed(encode_frame(Welcome{}) + encode_frame(topology, kSessionEpoch), {});
    check_fault(session, Errc::malformed);
  }
  SECTION("another epoch") {
    Session session = joined_session();
    session.feed(encode_frame(PeerLost{2, false, ""}, kSessionEpoch + 1), {});
    check_fault(session, Errc::wrong_epoch);
  }
  SECTION("answers nobody waits for") {
    Session session = joined_session();
    const std::uint64_t put = session.put("k", "v");
    const int which = GENERATE(0, 1, 2, 3);
    if (which == 0) session.feed(encode_frame(StoreAck{put + 1, Errc::ok}, kSessionEpoch), {});
    if (which == 1) session.feed(encode_frame(StoreValue{put, Errc::ok, ""}, kSessionEpoch), {});
    if (which == 2) session.feed(encode_frame(FenceRelease{0, ""}, kSessionEpoch), {});
    if (which == 3) session.feed(encode_frame(WorkerJoin{}, kSessionEpoch), {});
    check_fault(session, Errc::unexpected_message);
  }
  SECTION("a segment without its descriptor") {
    Session session = joined_session();
    const std::uint64_t request = session.get_segment("a", 4096);
    session.feed(encode_frame(Segment{request, Errc::ok, 4096}, kSessionEpoch), {});
    check_fault(session, Errc::malformed);
  }
  SECTION("a rank that does not exist") {
    Session session = joined_session();
    session.feed(encode_frame(PeerLost{3, false, ""}, kSessionEpoch), {});
    check_fault(session, Errc::malformed);
  }
  SECTION("rubbish") {
    Session session = joined_session();
    session.feed(std::string(64, '\xff'), {});
    check_fault(session, Errc::malformed);
  }
  SECTION("a payload that goes on") {
    Session session = joined_session();
    std::string bytes;
    append_frame(bytes, MessageType::peer_lost, kSessionEpoch,
                 encode(PeerLost{2, true, "x"}) + "y");
    session.feed(bytes, {});
    check_fault(session, Errc::malformed);
  }
  SECTION("the end") {
    Session session = joined_session();
    session.end_of_stream();
    check_fault(session, Errc::closed);
  }
}
