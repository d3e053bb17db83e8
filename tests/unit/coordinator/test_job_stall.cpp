// Operations that wait for ranks, and what becomes of the job.
#include "tests/catch.h"
#include "tests/unit/coordinator/job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;

JobSpec stall_spec() {
  JobSpec spec = JobFixture::make_spec();
  spec.stall_warning = 60s;
  spec.stall_shutdown = 90s;
  spec.init_timeout = 300s;
  return spec;
}

struct StallJobFixture : JobFixture {
  StallJobFixture() : JobFixture(stall_spec()) {}

  void run_joined() {
    run();
    CHECK(from_agent(0, RanksJoined{{0, 1}}) == Errc::ok);
    CHECK(from_agent(1, RanksJoined{{2}}) == Errc::ok);
    CHECK(from_agent(0, FenceEnter{0, {0, 1}, ""}) == Errc::ok);
    CHECK(from_agent(1, FenceEnter{0, {2}, ""}) == Errc::ok);
    take();
  }
  static RankPicture picture(std::uint32_t rank, const std::vector<PendingTensor>& pending) {
    RankPicture picture;
    picture.probe.rank = rank;
    picture.probe.pid = 1000 + rank;
    picture.probe.state = "S";
    picture.answered = true;
    picture.report = {pending, pending.size(), "loss", 3};
    return picture;
  }
  // Both hosts answer; ranks 0 and 1 wait for rank 2.
  void answer(std::uint64_t request, std::uint64_t age_ms) {
    CHECK(from_agent(0, RankPictures{request,
                                     {picture(0, {{"grad", age_ms}}),
                                      picture(1, {{"grad", 5}})}}) == Errc::ok);
    CHECK(from_agent(1, RankPictures{request, {picture(2, {})}}) == Errc::ok);
  }
  // The number under which both hosts are asked.
  std::uint64_t asked() {
    const auto questions = take_all<SurveyRanks>();
    REQUIRE(questions.size() == 2);
    CHECK(questions[0].first == 0);
    CHECK(questions[1].first == 1);
    CHECK(questions[0].second.request == questions[1].second.request);
    return questions[0].second.request;
  }
};

TEST_CASE_METHOD(StallJobFixture, "the launch tells the times", "[job]") {
  ready(1, 5001);
  ready(0, 5000);
  const auto launches = take_all<Launch>();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].second.stall_warning_ms == 60'000);
  CHECK(launches[0].second.stall_shutdown_ms == 90'000);
}

TEST_CASE_METHOD(StallJobFixture, "a stall is asked about once, and said once in a warning time",
                 "[job]") {
  run_joined();
  CHECK(from_agent(0, RankStalled{0, 59'000}) == Errc::ok);
  CHECK(take_all<SurveyRanks>().empty());
  CHECK(from_agent(0, RankStalled{0, 60'000}) == Errc::ok);
  const auto request = asked();
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + limits::kSurveyAnswer);
  answer(request, 60'100);
  const auto warnings = take_all<StallWarning>(Target::driver);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].second.lines.at(0) ==
        "tensor 'grad' waits since 60 s for rank 2; submitted by rank 0, 1");
  CHECK_FALSE(warnings[0].second.ends_job);
  CHECK(job.state() == JobState::running);
  // Rank 1 says so too, and rank 0 again.
  CHECK(from_agent(0, RankStalled{1, 60'000}) == Errc::ok);
  CHECK(take_all<SurveyRanks>().empty());
  CHECK(*job.next_deadline() == now + 60s);
  job.tick(now + 59s);
  CHECK(take_all<SurveyRanks>().empty());
  job.tick(now + 60s);
  answer(asked(), 0);  // it has come to an end
  CHECK(take_all<StallWarning>(Target::driver).empty());
  CHECK_FALSE(job.next_deadline());
}

TEST_CASE_METHOD(StallJobFixture, "after the shutdown time the job ends, and the cause is named",
                 "[job]") {
  run_joined();
  from_agent(0, RankStalled{0, 60'000});
  answer(asked(), 60'100);
  take();
  now += 30s;
  from_agent(0, RankStalled{0, 90'000});
  answer(asked(), 90'100);
  const auto sent = take();
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].frame.type == MessageType::stall_warning);
  CHECK(sent[1].frame.type == MessageType::kill_ranks);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::stalled);
  CHECK(job.verdict().exit_code == 82);
  CHECK(job.verdict().text == "tensor 'grad' had waited 90 s for rank 2 on b");
  // A stall that comes now does not matter any more.
  CHECK(from_agent(0, RankStalled{0, 99'000}) == Errc::ok);
  CHECK(take_all<SurveyRanks>().empty());
}

TEST_CASE_METHOD(StallJobFixture, "a host that does not answer keeps nobody waiting", "[job]") {
  run_joined();
  from_agent(0, RankStalled{0, 60'000});
  const auto request = asked();
  from_agent(0, RankPictures{request, {picture(0, {{"grad", 60'000}}), picture(1, {})}});
  CHECK(take_all<StallWarning>(Target::driver).empty());
  job.tick(now + limits::kSurveyAnswer);
  const auto warnings = take_all<StallWarning>(Target::driver);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].second.missing == 2);
  REQUIRE(warnings[0].second.named.size() == 2);
  CHECK(warnings[0].second.named[1].picture.probe.rank == 2);
  CHECK(warnings[0].second.named[1].picture.probe.state.empty());
  CHECK(warnings[0].second.lines.back() == "  rank 2 on b (pid 1002): its host has not answered");
  // Too late.
  CHECK(from_agent(1, RankPictures{request, {picture(2, {})}}) == Errc::ok);
  CHECK(take_all<StallWarning>(Target::driver).empty());
}

TEST_CASE_METHOD(StallJobFixture, "a job that ends meanwhile has another cause", "[job]") {
  run_joined();
  from_agent(0, RankStalled{0, 90'000});
  const auto request = asked();
  exit(1, ExitKind::exited, 3);
  CHECK(job.state() == JobState::ending);
  take();
  answer(request, 90'000);
  CHECK(take().empty());
  CHECK(job.verdict().exit_code == 3);
}

TEST_CASE_METHOD(StallJobFixture, "who comes to init while the hosts are asked is not missing",
                 "[job]") {
  run();
  from_agent(0, FenceEnter{0, {0}, ""});
  job.tick(now + 10s);
  const auto request = asked();
  from_agent(0, FenceEnter{0, {1}, ""});
  answer(request, 1);
  const auto lines = take_all<Log>(Target::driver);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].second.text == "  rank 2 on b (pid 1002): sleeping");
}

TEST_CASE_METHOD(StallJobFixture, "only hosts with a rank alive are asked", "[job]") {
  run_joined();
  exit(2, ExitKind::exited, 0);
  take();
  from_agent(0, RankStalled{0, 60'000});
  const auto questions = take_all<SurveyRanks>();
  REQUIRE(questions.size() == 1);
  CHECK(questions[0].first == 0);
}

TEST_CASE_METHOD(StallJobFixture, "a stall of ranks that are not there is a fault", "[job]") {
  run_joined();
  CHECK(from_agent(0, RankStalled{2, 60'000}) == Errc::malformed);
  CHECK(from_agent(0, RankStalled{99, 60'000}) == Errc::malformed);
  CHECK(from_agent(0, RankPictures{1, {picture(2, {})}}) == Errc::malformed);
  RankPicture wordy = picture(0, {});
  wordy.probe.stack = std::string(limits::kMaxKernelStack + 1, 's');
  CHECK(from_agent(0, RankPictures{1, {wordy}}) == Errc::malformed);
  wordy = picture(0, {});
  wordy.command = std::string(limits::kMaxProcessText + 1, 'c');
  CHECK(from_agent(0, RankPictures{1, {wordy}}) == Errc::malformed);
  wordy = picture(0, {{"x", 1}});
  wordy.report.pending_count = 0;
  CHECK(from_agent(0, RankPictures{1, {wordy}}) == Errc::malformed);
  CHECK(from_agent(0, RankPictures{1, {picture(0, {})}}) == Errc::ok);  // nobody has asked
}

TEST_CASE_METHOD(StallJobFixture, "who is missing in init is looked at as well", "[job]") {
  run();
  from_agent(0, FenceEnter{0, {0, 1}, ""});
  job.tick(now + 10s);
  const auto sent = take();
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].frame.type == MessageType::log);
  SurveyRanks question;
  REQUIRE(sent[1].frame.type == MessageType::survey_ranks);
  REQUIRE_FALSE(decode(sent[1].frame.payload, question));
  // A stall meanwhile waits for its turn.
  from_agent(0, RankStalled{0, 60'000});
  CHECK(take_all<SurveyRanks>().empty());
  SECTION("it is still missing") {
    answer(question.request, 1);
    const auto lines = take_all<Log>(Target::driver);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].second.text == "  rank 2 on b (pid 1002): sleeping");
  }
  SECTION("it has come") {
    from_agent(1, FenceEnter{0, {2}, ""});
    take();
    answer(question.request, 1);
    CHECK(take_all<Log>(Target::driver).empty());
  }
  SECTION("the shutdown time ends the wait, with the code of an init") {
    job.tick(now + 90s);
    CHECK(job.state() == JobState::ending);
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().exit_code == 80);
  }
}

TEST_CASE_METHOD(StallJobFixture, "the shutdown time ends a wait in Horovod's init too", "[job]") {
  run();
  job.horovod_gathering({0, 1}, {2}, now);
  job.tick(now + 89s);
  CHECK(job.state() == JobState::running);
  job.tick(now + 90s);
  CHECK(job.verdict().cause == EndCause::never_joined);
}

TEST_CASE_METHOD(JobFixture, "without a stall check nobody is asked", "[job]") {
  run();
  from_agent(0, RanksJoined{{0, 1}});
  take();
  CHECK(from_agent(0, RankStalled{0, 1'000'000}) == Errc::ok);
  CHECK(take_all<SurveyRanks>().empty());
}

}  // namespace
}  // namespace hvdrun
