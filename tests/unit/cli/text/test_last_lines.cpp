#include "cli/text/last_lines.h"
#include "tests/catch.h"

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
  // In parts, as it comes when the rank takes its time.
  lines.add(3, "epoch 1\nstep 7: ");
  lines.add(3, "loss ");
  lines.add(3, "0.3\n");
  CHECK(lines.of(3) == "step 7: loss 0.3");
  lines.add(3, "next");
  CHECK(lines.of(3) == "next");
  lines.add(3, "\nlast");
  CHECK(lines.of(3) == "last");
}

}  // namespace
}  // namespace hvdrun
