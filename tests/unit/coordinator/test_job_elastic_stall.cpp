// Ranks that others wait for, in a job whose ranks have other numbers than its slots.
#include <algorithm>

#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;
using Slots = std::vector<std::uint32_t>;

struct ElasticStallFixture : ElasticJobFixture {
  ElasticStallFixture() : ElasticJobFixture(stall_spec()) {}
  static JobSpec stall_spec() {
    JobSpec spec = elastic_spec();
    spec.stall_warning = 60s;
    spec.stall_shutdown = 90s;
    return spec;
  }
  static RankPicture picture(std::uint32_t slot, const std::vector<PendingTensor>& pending) {
    RankPicture picture;
    picture.probe.rank = slot;
    picture.probe.pid = 1000 + slot;
    picture.probe.state = "S";
    picture.answered = true;
    picture.report = {pending, pending.size(), "loss", 3};
    return picture;
  }
  // Slot 2 waits so long for slot 0. Slot 1 waits at its door.
  StallWarning warning(std::uint64_t age_ms) {
    CHECK(say(2, RankStalled{2, age_ms}) == Errc::ok);
    const auto questions = take_all<SurveyRanks>();
    REQUIRE(questions.size() == 2);
    const std::uint64_t request = questions[0].second.request;
    CHECK(say(2, RankPictures{request, {picture(2, {{"grad", age_ms}})}}) == Errc::ok);
    CHECK(say(0, RankPictures{request, {picture(0, {}), picture(1, {})}}) == Errc::ok);
    sent = take();
    const auto found = std::find_if(sent.begin(), sent.end(), [](const Sent& one) {
      return one.frame.type == MessageType::stall_warning;
    });
    REQUIRE(found != sent.end());
    return read<StallWarning>(*found);
  }
  std::vector<Sent> sent;
};

TEST_CASE_METHOD(ElasticStallFixture, "operations that wait name the ranks of the moment",
                 "[job]") {
  turn_around();
  come_anew(1);
  take();
  const StallWarning said = warning(60'000);
  CHECK(said.lines.at(0) == "tensor 'grad' waits since 60 s for rank 1; submitted by rank 0");
  REQUIRE(said.named.size() == 1);
  CHECK(said.named[0].picture.probe.pid == 1000);
  CHECK(said.named[0].host == 0);
}

TEST_CASE_METHOD(ElasticStallFixture, "ranks that others wait for too long are lost, and no end",
                 "[job]") {
  turn_around();
  come_anew(1);
  take();
  const StallWarning said = warning(90'000);
  CHECK_FALSE(said.ends_job);
  CHECK(job.state() == JobState::running);
  REQUIRE(sent.size() == 2);
  CHECK(sent[1].host == 0);
  CHECK(read<EndSlot>(sent[1]).slot == 0);
}

TEST_CASE_METHOD(ElasticStallFixture, "nobody is killed for a stall while a loss is under way",
                 "[job]") {
  turn_around();
  CHECK(say(2, RankStalled{2, 90'000}) == Errc::ok);
  const std::uint64_t request = take_all<SurveyRanks>().at(0).second.request;
  kill(0);
  take();
  CHECK(say(2, RankPictures{request, {picture(2, {{"grad", 90'000}})}}) == Errc::ok);
  CHECK(say(0, RankPictures{request, {picture(1, {})}}) == Errc::ok);
  CHECK(take().empty());
}

TEST_CASE_METHOD(ElasticStallFixture, "a question of an epoch is dropped with it", "[job]") {
  turn_around();
  CHECK(say(2, RankStalled{2, 60'000}) == Errc::ok);
  const std::uint64_t old = take_all<SurveyRanks>().at(0).second.request;
  come({0, 2});
  meet();
  take();
  CHECK(say(2, RankStalled{2, 60'000}) == Errc::ok);
  CHECK(take_all<SurveyRanks>().at(0).second.request != old);
  // An agent that was slow answers in the epoch that it is in.
  CHECK(say(2, RankPictures{old, {picture(2, {{"grad", 60'000}})}}) == Errc::ok);
  CHECK(say(0, RankPictures{old, {picture(0, {})}}) == Errc::ok);
  CHECK(take().empty());
}

TEST_CASE_METHOD(ElasticStallFixture, "who hangs in hvd::init is named by its rank", "[job]") {
  turn_around();
  come_anew(1);
  come({0, 2});
  REQUIRE(job.membership().order() == Slots{2, 0, 1});
  for (const std::uint32_t slot : {2U, 0U, 1U}) say(slot, RanksJoined{{slot}});
  say(2, FenceEnter{0, {2}, ""});
  say(1, FenceEnter{0, {1}, ""});
  take();
  job.tick(now + 10s);
  const auto questions = take_all<SurveyRanks>();
  REQUIRE(questions.size() == 2);
  const std::uint64_t request = questions[0].second.request;
  RankPicture silent = picture(0, {});
  silent.answered = false;
  say(2, RankPictures{request, {picture(2, {})}});
  say(0, RankPictures{request, {silent, picture(1, {})}});
  CHECK(lines() == std::vector<std::string>{"2 ranks wait in hvd::init since 10 s for rank 1",
                                            "  rank 1 on a (pid 1000): sleeping"});
}

TEST_CASE_METHOD(ElasticStallFixture,
                 "who hangs in a later hvd::init is killed, and the job goes on", "[job]") {
  turn_around();
  come_anew(1);
  come({0, 2});
  for (const std::uint32_t slot : {2U, 0U, 1U}) say(slot, RanksJoined{{slot}});
  say(2, FenceEnter{0, {2}, ""});
  say(1, FenceEnter{0, {1}, ""});
  take();
  job.tick(now + 60s);
  const std::uint64_t request = take_all<SurveyRanks>().at(0).second.request;
  RankPicture silent = picture(0, {});
  silent.answered = false;
  say(2, RankPictures{request, {picture(2, {})}});
  say(0, RankPictures{request, {silent, picture(1, {})}});
  CHECK(job.state() == JobState::running);
  const auto ended = take_all<EndSlot>();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].first == 0);
  CHECK(ended[0].second.slot == 0);
}

}  // namespace
}  // namespace hvdrun
