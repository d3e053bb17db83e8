
#include "common/base/environment.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("variables are found and set by whole names", "[environment]") {
  Environment env = {"AB=1", "A="};
  CHECK(std::string(find_variable(env, "A")) == "");
  CHECK(find_variable(env, "B") == nullptr);
  set_variable(env, "A", "x=y");
  set_variable(env, "C", "z");
  CHECK(env == Environment{"AB=1", "A=x=y", "C=z"});
  erase_variable(env, "A");
  CHECK(env == Environment{"AB=1", "C=z"});
  set_variables(env, {"C=y", "D", "E==", "AB="});
  CHECK(env == Environment{"AB=", "C=y", "D=", "E=="});
}

}  // namespace
}  // namespace hvdrun
