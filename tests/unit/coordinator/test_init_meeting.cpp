#include "coordinator/init_meeting.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<std::uint32_t>;

TEST_CASE("a meeting knows who is here, who is not yet, and who has gone", "[init meeting]") {
  InitMeeting meeting(4);
  CHECK(meeting.count() == 0);
  CHECK(meeting.absent() == Ranks{0, 1, 2, 3});
  meeting.came(2);
  meeting.came(0);
  meeting.came(2);  // it is in the fence now
  meeting.came(4);  // there is no such rank
  CHECK(meeting.count() == 2);
  CHECK(meeting.here() == Ranks{0, 2});
  CHECK(meeting.absent() == Ranks{1, 3});
  CHECK(meeting.is_here(2));
  CHECK_FALSE(meeting.is_here(1));
  CHECK_FALSE(meeting.is_here(4));
  meeting.left(2);
  meeting.left(1);
  CHECK(meeting.here() == Ranks{0});
  CHECK(meeting.gone() == Ranks{2});
  CHECK(meeting.absent() == Ranks{1, 3});
  SECTION("it comes again") {
    meeting.came(2);
    CHECK(meeting.here() == Ranks{0, 2});
    CHECK(meeting.gone().empty());
  }
  SECTION("the fence opens, and the next meeting begins") {
    meeting.opened();
    CHECK(meeting.count() == 0);
    CHECK(meeting.absent() == Ranks{0, 1, 2, 3});
  }
  SECTION("nobody is left, and the next meeting begins") {
    meeting.left(0);
    CHECK(meeting.count() == 0);
    CHECK(meeting.absent() == Ranks{0, 1, 2, 3});
  }
}

TEST_CASE("those who may still come are waited for a moment, once", "[init meeting]") {
  InitMeeting meeting(4);
  const TimePoint now{};
  CHECK_FALSE(meeting.is_hopeless(1, now));
  CHECK_FALSE(meeting.next_deadline());
  meeting.came(0);
  meeting.came(1);
  CHECK_FALSE(meeting.is_hopeless(1, now));
  CHECK(meeting.next_deadline() == now + 500ms);
  SECTION("they come") {
    meeting.came(2);
    CHECK(meeting.is_hopeless(1, now + 100ms));
  }
  SECTION("they end, too") { CHECK(meeting.is_hopeless(2, now + 100ms)); }
  SECTION("they do not come") {
    CHECK_FALSE(meeting.is_hopeless(1, now + 499ms));
    CHECK(meeting.is_hopeless(1, now + 500ms));
  }
  CHECK_FALSE(meeting.next_deadline());
  meeting.opened();
  meeting.came(0);
  CHECK_FALSE(meeting.is_hopeless(1, now + 1s));
  CHECK(meeting.next_deadline() == now + 1500ms);
}

TEST_CASE("a meeting of some slots knows no others", "[init meeting]") {
  InitMeeting meeting(4, {3, 1});
  CHECK(meeting.absent() == Ranks{1, 3});
  meeting.came(0);
  CHECK(meeting.count() == 0);
  meeting.came(3);
  CHECK(meeting.here() == Ranks{3});
  CHECK(meeting.absent() == Ranks{1});
  const TimePoint now{};
  CHECK_FALSE(meeting.is_hopeless(0, now));
  CHECK(meeting.is_hopeless(1, now));  // nobody else is needed
  meeting.left(3);
  CHECK(meeting.absent() == Ranks{1, 3});
}

}  // namespace
}  // namespace hvdrun
