#include "common/base/printable.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("a word in a message breaks no line and steers no terminal", "[printable]") {
  CHECK(printable("plain h\xc3\xb6st 'x'") == "plain h\xc3\xb6st 'x'");
  CHECK(printable("a\nb\tc\r\x1b[0m\x7f") == "a\\nb\\tc\\x0d\\x1b[0m\\x7f");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
  CHECK(quoted_word("") == "''");
  const std::string longest(kMaxPrintable, 'a');
  CHECK(printable(longest) == longest);
  CHECK(printable(longest + "b") == longest + "...");
}

}  // namespace
}  // namespace hvdrun
