#include "coordinator/rank_survey.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

RankPicture picture_with(std::uint32_t rank, const char* state) {
  RankPicture picture;
  picture.probe.rank = rank;
  picture.probe.state = state;
  return picture;
}

TEST_CASE("a survey is complete when every host has answered it", "[stall]") {
  RankSurvey survey;
  const TimePoint now{};
  CHECK_FALSE(survey.is_open());
  CHECK_FALSE(survey.take(now));
  CHECK_FALSE(survey.next_deadline());
  survey.answered(0, {1, {picture_with(0, "S")}});  // nobody has asked
  const auto request = survey.open(RankSurvey::About::stall, {0, 2}, now);
  CHECK(survey.is_open());
  CHECK(survey.next_deadline() == now + limits::kSurveyAnswer);
  survey.answered(0, {request, {picture_with(0, "S"), picture_with(1, "T")}});
  survey.answered(0, {request, {picture_with(0, "R")}});      // twice
  survey.answered(1, {request, {picture_with(3, "S")}});      // was not asked
  survey.answered(2, {request + 1, {picture_with(4, "S")}});  // another question
  CHECK_FALSE(survey.take(now));
  survey.answered(2, {request, {picture_with(4, "D")}});
  const auto ranks = survey.take(now);
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 3);
  CHECK(ranks->at(0).probe.state == "S");
  CHECK(ranks->at(1).probe.state == "T");
  CHECK(ranks->at(4).probe.state == "D");
  CHECK_FALSE(survey.is_open());
  CHECK_FALSE(survey.take(now + 10s));
}

TEST_CASE("a silent host is left out, and is not taken for an answer to the next", "[stall]") {
  RankSurvey survey;
  const TimePoint now{};
  const auto first = survey.open(RankSurvey::About::stall, {0, 1}, now);
  survey.answered(0, {first, {picture_with(0, "S")}});
  CHECK_FALSE(survey.take(now + limits::kSurveyAnswer - 1ms));
  CHECK(survey.take(now + limits::kSurveyAnswer)->size() == 1);
  const auto second = survey.open(RankSurvey::About::stall, {1}, now + 5s);
  CHECK(second != first);
  survey.answered(1, {first, {picture_with(2, "S")}});
  CHECK_FALSE(survey.take(now + 5s));
  CHECK(survey.take(now + 10s)->empty());
  survey.open(RankSurvey::About::stall, {}, now);
  CHECK(survey.take(now)->empty());
}

TEST_CASE("answers to a question that is dropped are none to the next", "[stall]") {
  RankSurvey survey;
  const TimePoint now{};
  const auto first = survey.open(RankSurvey::About::stall, {0, 1}, now);
  survey.answered(0, {first, {picture_with(0, "S")}});
  survey.drop();
  CHECK_FALSE(survey.is_open());
  CHECK_FALSE(survey.next_deadline());
  CHECK_FALSE(survey.take(now + 10s));
  const auto second = survey.open(RankSurvey::About::hang_in_init, {1}, now);
  survey.answered(1, {first, {picture_with(1, "S")}});
  CHECK_FALSE(survey.take(now));
  survey.answered(1, {second, {picture_with(1, "T")}});
  const auto ranks = survey.take(now);
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 1);
  CHECK(ranks->at(1).probe.state == "T");
}

}  // namespace
}  // namespace hvdrun
