// All ranks have come to hvd::init, and it does not get on.
#include <algorithm>

#include "tests/catch.h"
#include "tests/unit/coordinator/job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;

struct HangJobFixture : JobFixture {
  explicit HangJobFixture(const JobSpec& spec = make_spec()) : JobFixture(spec) {
    run();
    from_agent(0, RanksJoined{{0, 1}});
    from_agent(1, RanksJoined{{2}});
    take();
  }
  static RankPicture waits(std::uint32_t rank, const std::vector<std::uint32_t>& unconnected = {}) {
    RankPicture picture;
    picture.probe.rank = rank;
    picture.probe.pid = 1000 + rank;
    picture.probe.state = "S";
    picture.answered = true;
    picture.report.meeting = true;
    picture.report.unconnected = unconnected;
    return picture;
  }
  static RankPicture stopped(std::uint32_t rank) {
    RankPicture picture;
    picture.probe.rank = rank;
    picture.probe.pid = 1000 + rank;
    picture.probe.state = "T";
    return picture;
  }
  // The number under which all hosts are asked, with nothing said before.
  std::uint64_t asked() {
    const auto sent = take();
    REQUIRE(sent.size() == 2);
    SurveyRanks question;
    for (const Sent& one : sent) {
      REQUIRE(one.frame.type == MessageType::survey_ranks);
      REQUIRE_FALSE(decode(one.frame.payload, question));
    }
    return question.request;
  }
  void answer(std::uint64_t request, const std::vector<RankPicture>& pictures) {
    for (const std::uint32_t host : {0U, 1U}) {
      RankPictures message{request, {}};
      std::copy_if(pictures.begin(), pictures.end(), std::back_inserter(message.ranks),
                   [&](const RankPicture& one) { return one.probe.rank / 2 == host; });
      CHECK(from_agent(host, message) == Errc::ok);
    }
  }
  std::vector<std::string> said() {
    std::vector<std::string> lines;
    for (const auto& [host, log] : take_all<Log>(Target::driver)) lines.push_back(log.text);
    return lines;
  }
};

TEST_CASE_METHOD(HangJobFixture, "a rank that is stopped before the others have met it is named",
                 "[job]") {
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + 10s);
  job.tick(now + 10s);
  now += 10s;
  answer(asked(), {waits(0), stopped(1), waits(2)});
  CHECK(said() == std::vector<std::string>{"2 ranks wait in hvd::init since 10 s for rank 1",
                                           "  rank 1 on a (pid 1001): stopped"});
  SECTION("the end of the time asks once more, and ends the job") {
    job.tick(now + 50s);
    CHECK(job.state() == JobState::running);
    CHECK(*job.next_deadline() == now + 50s + limits::kSurveyAnswer);
    answer(asked(), {waits(0), stopped(1), waits(2)});
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().exit_code == 80);
    CHECK(job.verdict().text == "rank 1 hangs in hvd::init");
  }
  SECTION("a host that does not answer any more changes nothing but the name") {
    job.tick(now + 50s);
    const auto request = asked();
    from_agent(0, RankPictures{request, {waits(0), waits(1)}});
    job.tick(now + 50s + limits::kSurveyAnswer);
    CHECK(job.verdict().text == "rank 2 hangs in hvd::init");
  }
  SECTION("the fence opens meanwhile") {
    job.tick(now + 50s);
    const auto request = asked();
    from_agent(0, FenceEnter{0, {0, 1}, ""});
    from_agent(1, FenceEnter{0, {2}, ""});
    answer(request, {waits(0), stopped(1), waits(2)});
    CHECK(job.state() == JobState::running);
    CHECK_FALSE(job.next_deadline());
  }
  SECTION("one has ended with 0 while it is asked: that is the cause") {
    job.tick(now + 50s);
    asked();
    CHECK(exit(1, ExitKind::exited, 0) == Errc::ok);
    CHECK(job.verdict().cause == EndCause::early_exit);
    CHECK(job.verdict().text == "waited for in hvd::init by rank 0, 2");
  }
}

TEST_CASE_METHOD(HangJobFixture, "the ranks in the fence wait for the one that is not", "[job]") {
  from_agent(0, FenceEnter{0, {0, 1}, ""});
  take();
  job.tick(now + 10s);
  // It answers, and waits for nobody.
  RankPicture busy = waits(2);
  busy.report.meeting = false;
  answer(asked(), {waits(0), waits(1), busy});
  CHECK(said() == std::vector<std::string>{"2 ranks wait in hvd::init since 10 s for rank 2",
                                           "  rank 2 on b (pid 1002): sleeping"});
}

TEST_CASE_METHOD(HangJobFixture, "connections that do not come up blame no rank", "[job]") {
  from_agent(0, FenceEnter{0, {1}, ""});
  take();
  job.tick(now + 10s);
  answer(asked(), {waits(0, {2}), waits(1), waits(2, {0})});
  CHECK(said() == std::vector<std::string>{
                      "3 ranks wait in hvd::init since 10 s for connections between hosts",
                      "  rank 0 on a and rank 2 on b get no connection to each other"});
  const std::string cause =
      "rank 0 on a and rank 2 on b get no connection to each other in hvd::init";
  SECTION("when the time is over") {
    job.tick(now + 60s);
    answer(asked(), {waits(0, {2}), waits(1), waits(2, {0})});
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().text == cause);
  }
  SECTION("when the ranks' own time is over, and nobody is left who could tell") {
    from_agent(0, RankTrouble{0, Errc::timeout, "hvd::init(): waited 30 s for rank 2"});
    from_agent(1, RankTrouble{2, Errc::timeout, "hvd::init(): waited 30 s for rank 0"});
    const auto request = asked();
    CHECK(exit(0, ExitKind::exited, 9) == Errc::ok);
    CHECK(job.state() == JobState::running);
    answer(request, {stopped(0), waits(1), stopped(2)});
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().text == cause);
  }
}

TEST_CASE_METHOD(HangJobFixture, "ranks whose own time is over say whom the launcher finds",
                 "[job]") {
  from_agent(0, RankTrouble{0, Errc::timeout, "hvd::init(): waited 2 s for rank 1"});
  from_agent(1, RankTrouble{2, Errc::timeout, "hvd::init(): waited 2 s for rank 1"});
  const auto request = asked();
  from_agent(0, RankLeft{0, false});
  CHECK(exit(0, ExitKind::exited, 9) == Errc::ok);
  CHECK(exit(2, ExitKind::exited, 9) == Errc::ok);
  CHECK(job.state() == JobState::running);
  SECTION("the one that does not answer") {
    answer(request, {stopped(1)});
    CHECK(job.state() == JobState::ending);
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().text == "rank 1 hangs in hvd::init");
  }
  SECTION("nobody: then what the first has said") {
    answer(request, {waits(1)});
    REQUIRE(job.next_deadline());
    job.tick(*job.next_deadline());
    CHECK(job.state() == JobState::ending);
    CHECK(job.verdict().cause == EndCause::rank_failed);
    CHECK(job.verdict().rank == 0);
    CHECK(job.verdict().text == "hvd::init(): waited 2 s for rank 1");
  }
}

struct HastyJobFixture : HangJobFixture {
  static JobSpec hasty_spec() {
    JobSpec spec = make_spec();
    spec.init_timeout = JobSpec::kAfterInitTimeout + 2s;
    return spec;
  }
  HastyJobFixture() : HangJobFixture(hasty_spec()) {}
};

TEST_CASE_METHOD(HastyJobFixture, "the last one's word may come when its init is broken off",
                 "[job]") {
  from_agent(0, FenceEnter{0, {1}, ""});
  job.tick(now + 1s);
  answer(asked(), {waits(0, {2}), waits(1), waits(2, {0})});
  now += 2s;
  from_agent(0, RankTrouble{0, Errc::timeout, "hvd::init(): waited 2 s for rank 2"});
  from_agent(1, RankTrouble{2, Errc::timeout, "hvd::init(): waited 2 s for rank 0"});
  asked();
  for (const std::uint32_t gone : {0U, 2U}) CHECK(exit(gone, ExitKind::exited, 9) == Errc::ok);
  take();
  from_agent(0, RankTrouble{1, Errc::timeout, "hvd::init(): not all arrived in time"});
  CHECK(exit(1, ExitKind::exited, 9) == Errc::ok);
  CHECK(job.verdict().cause == EndCause::never_joined);
  CHECK(job.verdict().text ==
        "rank 0 on a and rank 2 on b get no connection to each other in hvd::init");
}

TEST_CASE_METHOD(HastyJobFixture, "ranks that will have gone soon are looked at before", "[job]") {
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + 1s);
  job.tick(now + 1s);
  answer(asked(), {waits(0, {2}), waits(1), waits(2, {0})});
  CHECK(take().empty());
  from_agent(0, RankTrouble{1, Errc::timeout, "hvd::init(): not all arrived in time"});
  from_agent(0, RankTrouble{0, Errc::timeout, "hvd::init(): waited 2 s for rank 2"});
  from_agent(1, RankTrouble{2, Errc::timeout, "hvd::init(): waited 2 s for rank 0"});
  const auto request = asked();
  now += 2s;
  CHECK(exit(1, ExitKind::exited, 9) == Errc::ok);
  CHECK(job.state() == JobState::running);
  SECTION("the survey ends first") { answer(request, {stopped(0), stopped(2)}); }
  SECTION("the ranks do") {
    CHECK(exit(0, ExitKind::exited, 9) == Errc::ok);
    CHECK(exit(2, ExitKind::exited, 9) == Errc::ok);
    CHECK(job.state() == JobState::ended);
  }
  CHECK(job.verdict().after_ms == 2000);
  CHECK(job.verdict().cause == EndCause::never_joined);
  CHECK(job.verdict().text ==
        "rank 0 on a and rank 2 on b get no connection to each other in hvd::init");
}

TEST_CASE_METHOD(HangJobFixture, "where each is busy with its own nobody waits", "[job]") {
  std::vector<RankPicture> busy{waits(0), waits(1), waits(2)};
  for (RankPicture& one : busy) one.report.meeting = false;
  job.tick(now + 10s);
  answer(asked(), busy);
  CHECK(take().empty());
  job.tick(now + 60s);
  now += 60s;
  answer(asked(), busy);
  CHECK(job.state() == JobState::running);
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + 10s);
}

}  // namespace
}  // namespace hvdrun
