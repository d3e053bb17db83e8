#include "common/base/limits.h"
#include "tests/catch.h"
#include "worker/agent/output/line_splitter.h"

namespace hvdrun {
namespace {

TEST_CASE("lines come out whole, whatever the split", "[output]") {
  const std::string text = std::string("one\n\ntwo\r50%\r\xff\xfe") + '\0' + "x\nrest";
  for (std::size_t split = 0; split <= text.size(); ++split) {
    CAPTURE(split);
    LineSplitter splitter;
    std::string out;
    bool partial = false;
    splitter.feed(text.substr(0, split), out, partial);
    CHECK_FALSE(partial);
    CHECK((out.empty() || out.back() == '\n' || out.back() == '\r'));
    splitter.feed(text.substr(split), out, partial);
    CHECK(out + splitter.take_rest() == text);
    CHECK(splitter.take_rest().empty());
  }
}

TEST_CASE("a line over the limit is passed on in parts", "[output]") {
  LineSplitter splitter;
  std::string out;
  bool partial = false;
  const std::string piece(1000, 'x');
  std::size_t fed = 0;
  while (!partial) {
    splitter.feed(piece, out, partial);
    fed += piece.size();
    REQUIRE(fed <= limits::kMaxOutputLine + piece.size());
  }
  CHECK(out.size() == fed);
  splitter.feed("end\n", out, partial);
  CHECK_FALSE(partial);
  CHECK(out.size() == fed + 4);
}

}  // namespace
}  // namespace hvdrun
