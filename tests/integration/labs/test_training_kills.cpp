#include "tests/catch.h"
#include "tests/integration/helpers/killed_rank.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

TEST_CASE("whoever is killed in a training is named by all others", "[soak][torch][kill]") {
  if (!takes_turn(3)) return;
  check_killed_ranks("trainings", {build_path("tests/integration/programs/torch_probe"), "kill"});
}

}  // namespace
}  // namespace hvdrun::test
