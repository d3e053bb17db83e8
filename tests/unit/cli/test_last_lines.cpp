#include <catch2/catch.hpp>

#include "cli/last_lines.h"

namespace hvdrun {
namespace {

TEST_CASE("the last line of each rank is known, ended or not", "[last lines]") {
  LastLines lines;
  CHECK(lines.of(0).empty());
  lines.add(0, "epoch 1\nepoch 2\n\n");
  lines.add(1, "10 %\r20 %\r");
  CHECK(lines.of(0) == "epoch 2");
  CHECK(lines.of(1) == "20 %");
  lines.add(1, "\n");  // says nothing new
  CHECK(lines.of(1) == "20 %");
  lines.add(1, "done");
  CHECK(lines.of(1) == "done");
  lines.add(2, std::string(1000, 'x'));
  CHECK(lines.of(2) == std::string(120, 'x'));
}

}  // namespace
}  // namespace hvdrun
